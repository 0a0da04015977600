"""Measure the time from a file of labelled rows to a published model, with Tuneline and by hand.

``python -m benchmarks.published --commits OLD HEAD --rounds 2``: in each round, every commit in a fresh clone
runs ``tuneline init --yes`` and ``dvc repro``, with the libraries of this environment. Then
``benchmarks.published.by_hand`` runs the same recipe on the same rows, in the clone of the last commit.
Prints the seconds of every stage and of the whole, and accuracy, agreement of int8, and sizes. Run it with
nothing else running on the machine.

By default, the rows are the first 1,200 of CoLA: sentences and whether they are acceptable English, which are
as short as those of SST-2.
"""

import argparse
import csv
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tuneline.core.paths import ONNX

ROOT = Path(__file__).resolve().parents[2]
COLA = ROOT.parent / "shared/data/cola/train.tsv"
ROWS = 1_200
BY_HAND = "by hand"
Measurements = dict[str, float | str]


def first_of_cola(folder: Path) -> Path:
    """Write the first rows of CoLA with a line of names, and return the file."""
    with COLA.open(newline="", encoding="utf-8") as source:
        rows = list(csv.reader(source, delimiter="\t", quoting=csv.QUOTE_NONE))[:ROWS]
    path = folder / "cola.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["sentence", "mark"])
        writer.writerows([row[3], row[1]] for row in rows)
    return path


def processor_seconds() -> float:
    """Return the seconds of processor of all programs that ended; other load changes them less."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(project: Path, *command: str) -> tuple[float, str]:
    """Run a command with the code of a project; return its seconds and what it prints.

    Raises:
        SystemExit: The command failed.
    """
    environment = {**os.environ, "PYTHONPATH": str(project), "DVC_NO_ANALYTICS": "1"}
    started = time.perf_counter()
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return seconds, done.stdout


def clone(commit: str, checkpoint: Path, project: Path) -> None:
    """Check out a commit, and copy the checkpoint to where its parameters name it."""
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(ROOT), str(project)], check=True)
    subprocess.run(["git", "checkout", "--quiet", commit], cwd=project, check=True)
    shutil.copytree(checkpoint, project / "models/source" / checkpoint.name)


def publish(project: Path, file: Path, arguments: argparse.Namespace) -> Measurements:
    """Run the pipeline, and return the seconds of its stages and what it says about its model."""
    before = processor_seconds()
    columns = ["--text", arguments.text, "--label", arguments.label]
    checkpoint = f"models/source/{arguments.checkpoint.name}"
    init, _ = run(
        project,
        *("tuneline", "init", str(file), "--checkpoint", checkpoint, "--yes"),
        *columns,
    )
    repro, _ = run(project, "dvc", "repro")

    measurements: Measurements = {"init": init}
    for path in sorted((project / "reports/timing").glob("*.json")):
        measurements[path.stem] = read(path)["seconds"]
    measurements["whole"] = init + repro
    measurements["of processor"] = processor_seconds() - before
    evaluated = read(project / "metrics/evaluate.json")
    compared = read(project / "metrics/compare.json")
    measurements["model"] = read(project / ONNX / "export.json").get("head") or "fine-tuned"
    measurements["accuracy"] = evaluated["accuracy"]
    measurements["int8 accuracy"] = evaluated["accuracy"] - compared["int8_accuracy_drop"]
    measurements["int8 agreement"] = compared["int8_agreement"]
    return measurements | sizes(project / ONNX)


def publish_by_hand(project: Path) -> Measurements:
    """Run the recipe by hand in a project whose pipeline has run, and return the same measurements."""
    folder = project / "by_hand"
    shutil.copytree(ROOT / "benchmarks/published", project / "benchmarks/published", dirs_exist_ok=True)
    before = processor_seconds()
    whole, output = run(project, sys.executable, "-m", "benchmarks.published.by_hand", str(folder))
    result = json.loads(output.splitlines()[-1])
    measurements: Measurements = {"start": whole - sum(result["seconds"].values())}
    measurements |= result["seconds"]
    measurements |= {"whole": whole, "of processor": processor_seconds() - before, "model": "fine-tuned"}
    return measurements | result["metrics"] | sizes(folder)


def read(path: Path) -> dict[str, Any]:
    """Return a JSON object."""
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def sizes(folder: Path) -> Measurements:
    """Return the megabytes of both models."""
    return {
        "fp32 MB": (folder / "model.onnx").stat().st_size / 1e6,
        "int8 MB": (folder / "model.int8.onnx").stat().st_size / 1e6,
    }


def show(runs: dict[str, list[Measurements]]) -> None:
    """Print a row for each measurement, and a column for each way; a cell has the values of all rounds."""
    table = Table("", *runs)
    names: dict[str, None] = {}
    for rounds in runs.values():
        names |= dict.fromkeys(rounds[0])
    for name in names:
        cells = []
        for rounds in runs.values():
            values = [measurements.get(name, "") for measurements in rounds]
            cells.append(", ".join(cell(value) for value in values))
        table.add_row(name, *cells)
    Console(width=120).print(table)


def cell(value: float | str) -> str:
    """Return a number with as many digits as say something."""
    if isinstance(value, str):
        return value
    digits = 1
    if value <= 1:
        digits = 3
    return f"{value:.{digits}f}"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", type=Path, help=f"a table; default: the first {ROWS:,} rows of CoLA")
    parser.add_argument("--text", default="sentence", help="column of the text")
    parser.add_argument("--label", default="mark", help="column of the label")
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models/source/minilm", help="folder")
    parser.add_argument("--commits", nargs="+", default=["HEAD"])
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()

    runs: dict[str, list[Measurements]] = {}
    for number in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as scratch:
            file = arguments.file or first_of_cola(Path(scratch))
            for commit in arguments.commits:
                project = Path(scratch) / commit
                clone(commit, arguments.checkpoint.resolve(), project)
                runs.setdefault(commit, []).append(publish(project, file.resolve(), arguments))
                print(f"round {number + 1}, {commit}: {json.dumps(runs[commit][-1])}", flush=True)
            runs.setdefault(BY_HAND, []).append(publish_by_hand(project))
            print(f"round {number + 1}, {BY_HAND}: {json.dumps(runs[BY_HAND][-1])}", flush=True)
    show(runs)


if __name__ == "__main__":
    main()
