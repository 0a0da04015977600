"""Runs base, download, tokenize and validate of a checkout of this project on each case, in one process.

Run with the root of the checkout as the first entry of PYTHONPATH. Its stages are called as ``python -m
stages.NAME`` calls them, in a folder with its parameters. For rows it takes ``reports/checks/rows/``.

Each line of standard input is the path of a case: a folder with ``train.csv``, ``validation.csv``,
``test.csv`` and ``case.json`` (names of the text columns, the label column and the kind of the fault). The
answer is one line of JSON: the names of the failed checks, and the rows that each finding names.
"""

import importlib
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

STAGES = ("base", "download", "tokenize", "validate")
KEPT = ("conf", "project", "dvc.yaml")
CHECKOUT = Path(os.environ["PYTHONPATH"].split(os.pathsep)[0])
REVIEW = "labels review"

Rows = list[tuple[str, int]]
"""Split, and number of the row in its file, from 0."""


@dataclass
class Findings:
    """Findings on one case.

    Attributes:
        alarms: Findings that a user is told without looking for them: failed checks, or issues of which there
            are any.
        rows: Rows by finding, also of a check that passes.
        stopped: Message of the error that ended the work, if any.
        seconds: Wall time.
    """

    alarms: list[str] = field(default_factory=list)
    rows: dict[str, Rows] = field(default_factory=dict)
    stopped: str | None = None
    seconds: float = 0.0


def look(folder: Path, case: dict[str, Any]) -> Findings:
    """Run the stages on one case and read their outs."""
    from tuneline.core.runtime.errors import StageError

    _new_project(folder, case)
    findings = Findings()
    for stage in STAGES:
        try:
            importlib.import_module(f"stages.{stage}").main()
        except StageError as error:
            findings.stopped = f"{stage}: {error}"[:500]
            break
    if Path("reports/checks/checks.json").exists():
        _read_checks(findings)
    if case["kind"] == "wrong_labels":
        _review(findings)
    return findings


def _new_project(folder: Path, case: dict[str, Any]) -> None:
    """Make the working folder a project whose data is the case."""
    from ruamel.yaml import YAML

    for path in Path().iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in KEPT:
        source = CHECKOUT / name
        shutil.copytree(source, name) if source.is_dir() else shutil.copy(source, name)
    shutil.copytree(folder, "data/source/case")
    yaml = YAML(typ="safe", pure=True)
    params = yaml.load(CHECKOUT / "params.yaml")
    params["data"] |= {
        "source": "files",
        "path": "case",
        "text_columns": case["texts"],
        "label_column": case["label"],
    }
    params["tokenize"]["vocab_size"] = 1_000
    with Path("params.yaml").open("w", encoding="utf-8") as file:
        yaml.dump(params, file)


def _read_checks(findings: Findings) -> None:
    entries = json.loads(Path("reports/checks/checks.json").read_text(encoding="utf-8"))["checks"]
    if findings.stopped and findings.stopped.startswith("validate:"):
        findings.stopped = None  # the failed checks say it
    findings.alarms = sorted({entry["check"] for entry in entries if entry["status"] != "passed"})
    import pyarrow.parquet as pq

    for path in Path("reports/checks/rows").glob("*.parquet"):
        table = pq.read_table(path, columns=["split", "row"]).to_pydict()
        findings.rows[path.stem] = _in_source(list(zip(table["split"], table["row"], strict=True)))


def _in_source(rows: Rows) -> Rows:
    """Return the numbers that rows of ``data/raw`` have in their files."""
    import pyarrow.parquet as pq

    numbers = {
        split: pq.read_table(f"data/raw/{split}.parquet", columns=["idx"])["idx"].to_pylist()
        for split in {row[0] for row in rows}
    }
    return [(split, numbers[split][row]) for split, row in rows]


def _review(findings: Findings) -> None:
    """Take the rows that ``tuneline labels review`` finds, the most doubtful first."""
    import pyarrow.parquet as pq

    from tuneline.core.params.loading import load_params
    from tuneline.rows.proposals.label_review import review_labels

    params = load_params()
    columns, numbers = params.data.text_columns, {}
    for split in ("train", "validation", "test"):
        raw = pq.read_table(f"data/raw/{split}.parquet").to_pydict()
        numbers |= {
            (split, *texts): (split, number)
            for number, *texts in zip(raw["idx"], *(raw[name] for name in columns), strict=True)
        }
    suspects, _, _ = review_labels(params, max_rows=10**9)
    findings.rows[REVIEW] = [numbers[suspect.split, *suspect.texts] for suspect in suspects]
    findings.alarms += [REVIEW] if suspects else []


def serve() -> None:
    """Answer each line of standard input. What libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        folder, started = Path(line.strip()), time.perf_counter()
        case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
        findings = look(folder, case)
        findings.seconds = round(time.perf_counter() - started, 2)
        print(json.dumps(asdict(findings)), file=answers, flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        serve()
