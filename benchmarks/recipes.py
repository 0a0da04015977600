"""Measure what the recipe of ``tuneline init`` is worth beside simple models: on samples of a data set, accuracy on its test file.

For each number of rows and each seed, a clone of this repository gets that many rows of ``train.csv``, an eighth as many for validation,
and all rows of ``test.csv``; then ``tuneline init`` and ``dvc repro evaluate``. Where the recipe leaves the head to validation,
fine-tuning with the same values (``model.head: null``) is measured as well. Prints a table with the mean and range over the seeds, and the
seconds of ``train``.

``python -m benchmarks.recipes FOLDER --checkpoint models/source/NAME --rows 300 1000 --seeds 3``, with both files in FOLDER, and the
checkpoint in ``models/source/``. The other options are those of ``tuneline init``, such as ``--text first --text second --label same``.
"""

import argparse
import csv
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tuneline.core.files import read_yaml
from tuneline.core.paths import PARAMS
from tuneline.project.params_file import changed, write

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = {
    "majority": "majority_{}",
    "TF-IDF": "tfidf_{}",
    "frozen": "frozen_{}",
    "cosine": "cosine_{}",
    "recipe": "{}",
    "fine-tuned": "{}",
}
"""Column of the table, and its metric."""
Row = dict[str, float]


def prepare(folder: Path, rows: int, seed: int, target: Path) -> None:
    """Write the three files of one sample."""
    with (folder / "train.csv").open(newline="", encoding="utf-8") as file:
        head, *train = csv.reader(file)
    drawn = np.random.default_rng(seed).permutation(len(train))
    rows = min(rows, len(train) * 8 // 9)
    target.mkdir()
    for name, chosen in {"train": drawn[:rows], "validation": drawn[rows : rows + rows // 8]}.items():
        with (target / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([head, *(train[row] for row in chosen)])
    shutil.copy(folder / "test.csv", target)


def run(project: Path, *command: str) -> None:
    """Run a command in the project; its output is shown if it fails."""
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def set_param(project: Path, key: str, value: int | None) -> None:
    """Set a value in ``params.yaml``."""
    path = project / PARAMS
    write(path, changed(path, {key: value}))


def measure(folder: Path, checkpoint: str, rows: int, seed: int, options: Sequence[str]) -> Row:
    """Return the metric of every model on the test file, and the seconds of ``train``."""
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "project"
        run(ROOT, "git", "clone", "--quiet", str(ROOT), str(project))
        shutil.copytree(ROOT / checkpoint, project / checkpoint)
        prepare(folder, rows, seed, Path(scratch) / "sample")
        run(project, "tuneline", "init", f"{scratch}/sample", "--checkpoint", checkpoint, "--yes", "--no-trial", *options)
        set_param(project, "seed", seed)
        found = reproduce(project, "recipe")
        if read_yaml(project / PARAMS)["model"]["head"] is not None:
            set_param(project, "model.head", None)
            tuned = reproduce(project, "fine-tuned")
            found |= {key: value for key, value in tuned.items() if key not in found}
        return found


def reproduce(project: Path, model: str) -> Row:
    """Run the pipeline up to ``evaluate``; return the metric of every model, by its column."""
    started = time.monotonic()
    run(project, "dvc", "repro", "evaluate")
    metrics = json.loads((project / "metrics/evaluate.json").read_text())
    name = "accuracy" if "accuracy" in metrics else "pearson"
    columns = {column: key for column, key in COLUMNS.items() if column in {"majority", "TF-IDF", "frozen", "cosine", model}}
    found = {column: metrics[key.format(name)] for column, key in columns.items() if key.format(name) in metrics}
    timing = json.loads((project / "reports/timing/train.json").read_text())
    print(f"{model}: {found}, {time.monotonic() - started:.0f} s", flush=True)
    return {**found, f"seconds ({model})": timing["seconds"]}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--seeds", type=int, default=3)
    arguments, options = parser.parse_known_args()
    for rows in arguments.rows:
        results = [measure(arguments.folder, arguments.checkpoint, rows, seed, options) for seed in range(arguments.seeds)]
        keys = [key for key in (*COLUMNS, "seconds (recipe)", "seconds (fine-tuned)") if key in results[0]]
        values = {key: [result[key] for result in results] for key in keys}
        cells = [f"{key} {statistics.mean(found):.3f} ({min(found):.3f} to {max(found):.3f})" for key, found in values.items()]
        print(f"| {arguments.folder.name}, {rows:,} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
