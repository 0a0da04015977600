"""``tuneline show``: what the line made last, how good it is, and which commit it belongs to."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

from stages.errors import StageError

HEADLINES = {
    "accuracy": "accuracy",
    "f1": "F1",
    "matthews_correlation": "Matthews correlation",
    "pearson": "Pearson's r",
    "spearmanr": "Spearman's rho",
    "loss": "loss",
    "majority_accuracy": "accuracy of always saying the most frequent class",
    "rows": "rows",
}
"""The figures of metrics/evaluate.json that a person looks at first, in this order."""

PLACES = {
    "model": "models/classifier",
    "ONNX": "models/onnx",
    "report": "reports/index.html",
    "data checks": "reports/checks/index.html",
    "predictions": "reports/predictions.parquet",
}

NEXT_STEPS = """\
Try next:
  dvc exp run -S train.learning_rate=1e-3     another value, compared with  dvc metrics diff
  dvc exp run -S task=mrpc                    another task (conf/task/)
  tuneline predict FILE                       the model at work"""


def command() -> None:
    """Show what the line made last: how good it is, which commit it belongs to, where it lies."""
    console = Console()
    show(console)
    console.print(NEXT_STEPS, highlight=False, markup=False)


def show(console: Console, root: Path = Path()) -> None:
    """Prints metrics, provenance and places.

    Raises:
        StageError: The line has not run here.
    """
    metrics = root / "metrics/evaluate.json"
    if not metrics.exists():
        raise StageError(f"{metrics} is not there: the line has not run here yet.", "Run `make run` or `dvc repro`.")
    console.print(quality_table(_read(metrics), _read(root / "metrics/compare.json"), reported_split(root)))
    for name, value in {**provenance(root), **places(root)}.items():
        console.print(f"{name:>12}  {value}", highlight=False, soft_wrap=True, markup=False)


def quality_table(evaluated: Mapping[str, float], compared: Mapping[str, float], split: str) -> Table:
    """One row a figure: the trained model's, then how the exported ones compare with it."""
    table = Table(title=f"Quality on {split}", title_justify="left", show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    for key, title in HEADLINES.items():
        if key in evaluated:
            table.add_row(title, f"{evaluated[key]:,.6g}")
    table.add_section()
    for key, value in compared.items():
        table.add_row(key.replace("_", " "), f"{value:,.6g}")
    return table


def provenance(root: Path) -> dict[str, str]:
    """The version of the model in ``dvc.lock``, and the commit that brought it there."""
    lock = root / "dvc.lock"
    if not lock.exists():
        return {"version": "dvc.lock is not there: the line was never run to the end"}
    version = next(_outs(lock, "models/classifier"), None)
    if version is None:
        return {"version": "dvc.lock holds no model yet"}
    if version not in _git(root, "show", "HEAD:dvc.lock"):
        return {"version": version, "commit": "not committed yet: git add params.yaml dvc.lock metrics && git commit"}
    return {"version": version, "commit": _git(root, "log", "-1", "--format=%h %cs %s", f"-S{version}", "--", "dvc.lock")}


def places(root: Path) -> dict[str, str]:
    """Where what the line made lies: only what is there."""
    return {name: path for name, path in PLACES.items() if (root / path).exists()}


def reported_split(root: Path) -> str:
    """The split that metrics/evaluate.json is about, as ``dvc.lock`` has it."""
    try:
        lock = YAML(typ="safe", pure=True).load(root / "dvc.lock")
        return str(lock["stages"]["evaluate"]["params"]["params.yaml"]["evaluate.split"])
    except (FileNotFoundError, KeyError, TypeError):
        return "the reported split"


def _outs(lock: Path, path: str) -> Iterator[str]:
    for stage in YAML(typ="safe", pure=True).load(lock)["stages"].values():
        for out in stage.get("outs", []):
            if out["path"] == path:
                yield out["md5"]


def _read(path: Path) -> dict[str, float]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip()
