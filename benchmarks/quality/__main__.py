"""Measure the model of ``tuneline init`` and ``dvc repro evaluate`` on fresh rows, beside rivals.

``python -m benchmarks.quality FOLDER --checkpoint models/source/NAME --sets sections rte --rows 200 1000
--seeds 0 1`` draws so many rows of each data set for training, an eighth as many for validation, and scores
every model on the same fresh rows. Each model is a line of ``FOLDER/runs.jsonl``, with its scores and seconds
of processor (with imports, data checks and simple models for ours), and its predictions are in
``FOLDER/predictions/``. A line that is there is not computed again: delete it, or give another ``--name``, to
measure another commit beside the same rivals. Prints a table of all lines at the end.

``tuneline init`` gets the rows in a clone of the last commit, with this environment. Data sets of packages
read apt's lists; those of a folder (``--lists``) are fetched by ``apt-get -o Dir::State::lists=FOLDER -o
Acquire::Languages=de,en update``.
"""

import argparse
import csv
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from transformers.utils import logging as transformers_logging

from benchmarks.quality.data_sets import DATA_SETS, LISTS, DataSet, Sample, SkippedError, Split
from benchmarks.quality.results import Results, Run
from benchmarks.quality.rivals import RIVALS, predictions
from tuneline.core.params.params_file import changed, write
from tuneline.core.paths import PARAMS, PREDICTIONS
from tuneline.judge.metrics.predictions import read_predictions
from tuneline.judge.metrics.scores import compute_metric
from tuneline.judge.metrics.table import METRIC_TABLE
from tuneline.model.tasks.task import Labels

ROOT = Path(__file__).resolve().parents[2]
REPORTED_ONLY = dict.fromkeys(("absent_classes", "conflicting_labels", "leakage"), "warning")
"""Checks that would stop the pipeline: samples of public data have such rows."""


def processor_seconds() -> float:
    """Return the seconds of processor of this program and of those it started that ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def execute(project: Path, *command: str) -> None:
    """Run a command with the code of a project.

    Raises:
        SkippedError: It failed; the message is the end of what it printed.
    """
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": programs, "PYTHONPATH": str(project), "DVC_NO_ANALYTICS": "1"}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SkippedError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def ours(sample: Sample, checkpoint: Path) -> Labels:
    """Return the predictions for the fresh rows of the model that ``tuneline init`` gives."""
    names = ["text", "second"][: len(sample.fresh.columns)]
    with tempfile.TemporaryDirectory() as scratch:
        # rows
        folder = Path(scratch) / "sample"
        folder.mkdir()
        files = [str(folder / f"{name}.csv") for name in ("train", "validation", "test")]
        for file, split in zip(files, (sample.train, sample.validation, sample.fresh), strict=True):
            write_rows(Path(file), names, split)

        # clone
        project = Path(scratch) / "project"
        execute(ROOT, "git", "clone", "--quiet", str(ROOT), str(project))
        source = f"models/source/{checkpoint.name}"
        shutil.copytree(checkpoint, project / source)

        # model
        columns = [option for name in names for option in ("--text", name)]
        options = ["--label", "label", "--task", sample.task.kind, "--checkpoint", source, "--yes"]
        execute(project, "tuneline", "init", *files, *columns, *options)
        params = project / PARAMS
        values: dict[str, Any] = {"seed": sample.seed, "validate.severity": REPORTED_ONLY}
        if sample.task.class_names:
            values["data.label_names"] = list(sample.task.class_names)  # train may lack one
        write(params, changed(params, values))
        execute(project, "dvc", "repro", "evaluate")
        predicted = read_predictions(project / PREDICTIONS).translated(sample.task)
    if not np.array_equal(predicted.labels, sample.fresh.labels):
        raise SystemExit("The rows that were predicted are not the fresh ones.")
    return predicted.values


def write_rows(path: Path, names: list[str], split: Split) -> None:
    """Write the rows of a split, with several labels joined."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "label"])
        for texts, label in split.rows:
            writer.writerow([*texts, ";".join(label) if isinstance(label, list) else label])


def measure(data: DataSet, run: Run, checkpoint: Path, results: Results) -> None:
    """Compute one model, a rival or ours, and append its line."""
    sample = data.sample(run.rows, run.seed)
    before = processor_seconds()
    if run.model in RIVALS:
        predicted = predictions(sample, RIVALS[run.model](sample, checkpoint), sample.fresh)
    else:
        predicted = ours(sample, checkpoint)
    seconds = processor_seconds() - before

    labels = sample.fresh.labels
    scores = {name: compute_metric(METRIC_TABLE[name], labels, predicted) for name in data.metrics}
    results.append(run, scores, seconds, labels, predicted)


def main() -> None:
    """Measure what the file lacks, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="of the results")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=DATA_SETS, default=list(DATA_SETS))
    parser.add_argument("--rows", type=int, nargs="+", default=[200, 1_000, 3_000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="of the samples")
    parser.add_argument("--rivals", nargs="*", choices=RIVALS, default=list(RIVALS))
    parser.add_argument("--name", default="tuneline", help="of our model in the lines")
    parser.add_argument("--lists", type=Path, default=LISTS, help="folder of apt's lists")
    arguments = parser.parse_args()

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    results = Results(arguments.folder)
    for name in arguments.sets:
        try:
            data = DATA_SETS[name](arguments.lists)
        except SkippedError as reason:
            print(f"{name}: skipped, {reason}", flush=True)
            continue
        for rows in arguments.rows:
            for seed in arguments.seeds:
                for model in (*arguments.rivals, arguments.name):
                    run = Run(name, rows, seed, model)
                    if results.has(run):
                        continue
                    try:
                        measure(data, run, arguments.checkpoint.resolve(), results)
                    except SkippedError as reason:
                        print(f"{run}: skipped, {reason}", flush=True)
    results.show(arguments.name)


if __name__ == "__main__":
    main()
