"""Evaluate the trained classifier on the reported split: metrics, metrics by slice, behaviour tests.

Reads: ``models/classifier/``; the reported split in ``data/tokenized/`` and ``data/raw/``;
``reports/baselines/``, what simple models predict; ``reports/checks/rows/``, for the metric without leaked
rows; ``conf/behaviour/NAME.yaml``; the functions in ``project/`` that ``evaluate.metrics`` names; ``seed``
and the section ``evaluate``. Computes: the logits of every row, once; metrics, with and without leaked rows;
curves; metrics by slice; behaviour tests. Writes: ``reports/predictions.parquet``, ``reports/slices.json``,
``reports/behaviour.json``, ``plots/evaluation/``, ``metrics/evaluate.json``. A behaviour test below its
``min_pass_rate`` stops the pipeline, after all outs are written.
"""

import csv
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.evaluate.behaviour import LabelledTexts, pass_rates, read_suite, run_suite, violations_of
from tuneline.core.atomic_files import replace_directory
from tuneline.core.errors import DataError, GateError
from tuneline.core.paths import (
    BASELINES,
    CLASSIFIER,
    FAILING_ROWS,
    METRICS,
    PLOTS,
    PREDICTIONS,
    RAW,
    REPORTS,
    TOKENIZED,
    split_file,
)
from tuneline.core.raw_source import RawSource
from tuneline.core.records import Metrics
from tuneline.core.stage import Measurements, require, run_stage
from tuneline.core.tables import ROW_GROUP, SplitReader, numpy_values
from tuneline.core.terminal import phase, progress
from tuneline.evaluation.records import Behaviour, BehaviourResult, Slices
from tuneline.evaluation.scoring import (
    RowSlice,
    SplitPredictions,
    baseline_metrics,
    label_slices,
    leak_metrics,
    leaked_rows,
    length_slices,
    overlap_slices,
    read_baselines,
    score_slices,
    slices_report,
    source_slices,
    split_metrics,
    spread_metrics,
)
from tuneline.metrics.curves import Columns, Softmax, calibration, precision_recall_curve, roc_curve
from tuneline.metrics.functions import CustomMetric, load_metric
from tuneline.model.batches import TokenizedSplit
from tuneline.params import Params
from tuneline.params.loading import load_params
from tuneline.tasks import Task
from tuneline.tasks.predictions import write_predictions

Logits = NDArray[np.float32]


def make_split_slices(lengths: NDArray[np.int64], texts: LabelledTexts) -> Iterator[RowSlice]:
    """Yield the slices of a split by length, shared words, class and source."""
    yield from length_slices(lengths)
    if len(texts.columns) == 2:
        yield from overlap_slices(texts.batches())
    yield from label_slices(texts.labels, texts.task.class_names)
    yield from source_slices(*read_origin(texts.raw, RAW / "source.json"))


def main() -> Measurements:
    """Predict the reported split, compute metrics, slices and behaviour tests, and write the outs."""
    params = load_params()
    settings = params.evaluate
    split = read_split(SplitReader.open(TOKENIZED, settings.split, made_by="tokenize"))
    raw = SplitReader.open(RAW, settings.split, made_by="download")
    texts = LabelledTexts.of(raw, params.data.text_columns, split.labels, split.task)
    require(split_file(BASELINES, settings.split), made_by="baseline")  # said before the model predicts
    suite = None if settings.behaviour is None else read_suite(settings.behaviour)
    custom = [load_metric("evaluate.metrics", name, split.task) for name in settings.functions]
    require(CLASSIFIER, made_by="train")

    from stages.evaluate.classifier import Classifier

    classifier = Classifier.load(CLASSIFIER, split.task)
    with mapped_logits(REPORTS, len(split), split.task.outputs) as logits:
        started = time.perf_counter()
        classifier.logits(split, settings.batch_size, logits)
        seconds = time.perf_counter() - started
        behaviour = (
            run_suite(suite, texts, lambda rows: classifier.logits_of_texts(rows, settings.batch_size))
            if suite
            else []
        )
        with progress("evaluate"):
            slices, metrics = measure_split(params, split, texts, logits, custom)
            metrics |= pass_rates(behaviour)
            if slices.worst is not None:
                metrics[f"worst_slice_{slices.metric}"] = slices.value(slices.worst)
            phase("writing")
            write_outs(split, logits, slices, behaviour, Metrics.of(metrics))
    if violations := violations_of(behaviour):
        message = "\n  ".join(["the model fails behaviour tests:", *violations])
        raise GateError(message, f"Failed cases are in {REPORTS / 'behaviour.json'}.")
    return {"predicting_seconds": round(seconds, 2), "rows_per_second": round(len(split) / seconds, 1)}


def measure_split(
    params: Params,
    split: TokenizedSplit,
    texts: LabelledTexts,
    logits: Logits,
    custom: Sequence[CustomMetric],
) -> tuple[Slices, dict[str, float]]:
    """Return the metrics by slice, and those of the whole split: with the baselines, and without leaked rows."""
    phase("slices")
    schema, settings = split.task, params.evaluate
    predicted = SplitPredictions(
        split.labels, schema.predictions(logits), schema, schema.averaging(settings.f1), params.seed
    )
    slices = slices_report(
        score_slices(make_split_slices(split.lengths, texts), predicted), predicted.primary.name
    )
    phase("metrics")
    metrics = split_metrics(settings, split.labels, schema, logits, custom) | spread_metrics(predicted)
    for name, predictions in read_baselines(split_file(BASELINES, settings.split), len(split)).items():
        metrics |= baseline_metrics(predicted, name, predictions)
    if FAILING_ROWS.exists():  # else the data checks have not run here
        metrics |= leak_metrics(predicted, leaked_rows(FAILING_ROWS, settings.split, len(split)))
    return slices, metrics


def read_split(rows: SplitReader) -> TokenizedSplit:
    """Read the tokenized rows; refuse a split without rows, or with rows without a label."""
    split = TokenizedSplit.read(rows)
    if len(split) == 0:
        raise DataError(
            f"{rows.name} has no rows.",
            "Report on another split (evaluate.split), or give this one rows (data.splits).",
        )
    unlabelled = np.flatnonzero(split.task.unlabelled(split.labels))
    if len(unlabelled):
        raise DataError(
            f"{rows.name}: {len(unlabelled)} of {len(split)} rows have no label, the first is row"
            f" {unlabelled[0]}.",
            "Report on a split with labels: evaluate.split.",
        )
    return split


def read_origin(raw: SplitReader, source: Path) -> tuple[str, NDArray[np.int64]]:
    """Read the specification of a raw split from ``source.json``, empty without that file, and the row numbers in its source."""
    record = RawSource.read_if_exists(source)
    return record.splits[raw.split].specification if record else "", numpy_values(raw.read(["idx"])["idx"])


@contextmanager
def mapped_logits(folder: Path, rows: int, outputs: int) -> Iterator[Logits]:
    """Yield an empty array ``(rows, outputs)``, mapped to a file without a name in a folder: the system writes and evicts its pages."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        os.posix_fallocate(
            file.fileno(), 0, 4 * rows * outputs
        )  # else a full disk would kill the process when it writes a page
        yield np.asarray(np.memmap(file, np.float32, "r+", shape=(rows, outputs)))


def write_outs(
    split: TokenizedSplit,
    logits: Logits,
    slices: Slices,
    behaviour: Sequence[BehaviourResult],
    metrics: Metrics,
) -> None:
    """Write every out of the stage."""
    write_predictions(PREDICTIONS, split.labels, logits, split.task)
    slices.write(REPORTS / "slices.json")
    Behaviour(tests=behaviour).write(REPORTS / "behaviour.json")
    with replace_directory(PLOTS / "evaluation") as partial:
        write_plots(partial, logits, split.labels, split.task)
        scores = [
            (
                f"{slice_metrics.by}: {slice_metrics.name}",
                f"{slices.value(slice_metrics):.6g}",
                slice_metrics.rows,
            )
            for slice_metrics in slices.slices
        ]
        write_rows(partial / "slices.csv", ("slice", "score", "rows"), scores)
    metrics.write(METRICS / "evaluate.json")


SCATTERED = 2_000
"""Most points of a scatter plot, evenly spaced rows."""


def write_plots(folder: Path, logits: Logits, labels: NDArray[Any], task: Task) -> None:
    """Write every plot of one split, from logits ``(rows, outputs)``.

    Those of the other task get no rows: DVC warns of a missing file.
    """
    numbers = labels[:0], logits[:0, 0]
    if not task.has_classes:
        every = -(-len(labels) // SCATTERED)
        numbers = labels[::every], logits[::every, 0]
        logits, labels = np.empty((0, 1), dtype=np.float32), np.empty(0, dtype=np.int64)
    probability = Softmax.of(logits)
    named, starts = np.array(task.names or (), dtype=object), range(0, len(labels), ROW_GROUP)
    parts = ((labels[start:][:ROW_GROUP], logits[start:][:ROW_GROUP].argmax(axis=1)) for start in starts)
    confused = (
        row for actual, predicted in parts for row in zip(named[actual], named[predicted], strict=True)
    )
    write_rows(folder / "confusion.csv", ("actual", "predicted"), confused)
    _write_columns(folder / "scatter.csv", dict(zip(("actual", "predicted"), numbers, strict=True)))
    _write_columns(folder / "roc.csv", roc_curve(probability, labels))
    _write_columns(folder / "precision_recall.csv", precision_recall_curve(probability, labels))
    _write_columns(folder / "calibration.csv", calibration(probability, labels))


def _write_columns(path: Path, columns: Columns | dict[str, NDArray[Any]]) -> None:
    write_rows(
        path,
        list(columns),
        ([f"{value:.6g}" for value in row] for row in zip(*columns.values(), strict=True)),
    )


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV with a header.

    DVC puts names into a script of its page as they are, so ``<``, which could end that, is a code.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(
            SimpleNamespace(write=lambda line: file.write(line.replace("<", r"\u003c"))), lineterminator="\n"
        )
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    run_stage("evaluate", main)
