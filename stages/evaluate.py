"""Evaluate the trained classifier on the reported split: metrics, and metrics by slice.

Reads: ``models/classifier/``; the reported split in ``data/tokenized/``; ``reports/baselines/``, what simple
models predict; ``reports/checks/rows/``, for the metric without leaked rows; ``reports/checks/clusters/``,
which rows are independent; the functions in ``project/`` that ``evaluate.metrics`` and ``evaluate.slices``
name, and for slices the texts in ``data/raw/``; ``seed`` and the section ``evaluate``.
Computes: the logits of every row, once; metrics, with and without leaked rows; curves; metrics by slice.
Writes: ``reports/predictions.parquet``, ``reports/slices.json``, ``reports/evaluation.json`` with all
metrics, ``plots/evaluation/``, and ``metrics/evaluate.json`` with those that people compare.
"""

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tuneline.core.params import Params
from tuneline.core.params.loading import load_params
from tuneline.core.paths import (
    BASELINES,
    CLASSIFIER,
    EVALUATION,
    FAILING_ROWS,
    METRICS,
    PLOTS,
    PREDICTIONS,
    RAW,
    REPORTS,
    TOKENIZED,
    split_file,
)
from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.files import replace_directory
from tuneline.core.runtime.terminal import phase, progress
from tuneline.core.stage.entry import Measurements, require, run_stage
from tuneline.core.stage.records import Metrics, write_record
from tuneline.core.stage.tables import SplitReader, check_text_columns
from tuneline.judge.evaluation.evaluation import evaluate_predictions
from tuneline.judge.evaluation.keys import summary
from tuneline.judge.evaluation.plots import write_plots, write_rows
from tuneline.judge.evaluation.scoring import leaked_rows
from tuneline.judge.evaluation.slices import RowSlice, Slices, function_slices
from tuneline.judge.evaluation.table import ALL_METRICS
from tuneline.judge.metrics.functions import load_metric
from tuneline.judge.metrics.predictions import (
    Predictions,
    clusters_of_split,
    read_baselines,
    write_predictions,
)
from tuneline.judge.metrics.table import project_metric
from tuneline.model.tasks import trained_task
from tuneline.model.tasks.task import Logits
from tuneline.model.tokens.tokenized_splits import TokenizedSplit

ROWS_PER_BATCH = 64
"""Rows per batch, or windows of them; fewer where they have more than 512 tokens."""


def main() -> Measurements:
    """Predict the reported split, compute metrics and slices, and write the outs."""
    params = load_params()
    settings = params.evaluate

    # data, and which rows are independent, unless the data checks have not run here
    split = read_split(SplitReader.open(TOKENIZED, settings.split, made_by="tokenize"))
    clusters = clusters_of_split(settings.split, len(split))

    # what else may be missing or invalid is reported before the model predicts, which takes longest
    baselines = require(split_file(BASELINES, settings.split), made_by="baseline")
    functions = settings.metric_functions
    custom = [load_metric("evaluate.metrics", name, split.task, ALL_METRICS) for name in functions]
    custom_slices = read_slices(params, split)
    require(CLASSIFIER, made_by="train")

    # the model, which may have decisions of its own
    split = replace(split, task=trained_task(split.task, CLASSIFIER))

    from tuneline.judge.evaluation.classifier import Classifier

    classifier = Classifier.load(CLASSIFIER, split.task)

    # predictions
    started = time.perf_counter()
    logits = classifier.logits(split, ROWS_PER_BATCH)
    seconds = time.perf_counter() - started
    check_finite(logits, settings.split)

    # metrics and outs
    with progress("evaluate"):
        predictions = Predictions.of_logits(split.labels, logits, split.task, clusters)
        deciding = project_metric(split.task.judged_as, params.train.metric)
        leaked = None
        if FAILING_ROWS.exists():  # else the data checks have not run here
            leaked = leaked_rows(FAILING_ROWS, settings.split, len(split))
        metrics, slices = evaluate_predictions(
            predictions,
            split.lengths,
            read_baselines(baselines, len(split), split.task),
            deciding=deciding,
            seed=params.seed,
            custom=custom,
            custom_slices=custom_slices,
            leaked=leaked,
        )
        phase("writing")
        write_outs(predictions, slices, metrics)
        write_record(METRICS / "evaluate.json", Metrics.of(summary(metrics, deciding)))
    return {"predicting_seconds": round(seconds, 2), "rows_per_second": round(len(split) / seconds, 1)}


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


def read_slices(params: Params, split: TokenizedSplit) -> list[RowSlice]:
    """Read the texts of the reported split, and return the slices of ``evaluate.slices``.

    Raises:
        DataError: The raw split has other rows than the tokenized one.
    """
    if not params.evaluate.slices:
        return []
    raw = SplitReader.open(RAW, params.evaluate.split, made_by="download")
    check_text_columns(raw, params.data.text_columns)
    texts = raw.read(params.data.text_columns)
    if len(texts) != len(split):
        raise DataError(
            f"{raw.name} has {len(texts):,} rows, and the tokenized split has {len(split):,}.",
            "Run `dvc repro tokenize`.",
        )
    return function_slices(params.evaluate, texts, split.labels, split.task, params.evaluate.split)


def check_finite(logits: Logits, split: str) -> None:
    """Refuse a model that gives no finite number for a row: it has no answer for it.

    Raises:
        DataError: A logit is NaN or infinite.
    """
    rows = np.flatnonzero(~np.isfinite(logits).all(axis=1))
    if len(rows):
        raise DataError(
            f"The model gave no finite number for {len(rows)} of {len(logits)} rows of {split}, the first is"
            f" row {rows[0]}.",
            "Train again with a lower train.learning_rate, or with mixed_precision 'no' or bf16.",
        )


def write_outs(predictions: Predictions, slices: Slices, metrics: Mapping[str, float]) -> None:
    """Write every out of the stage but ``metrics/evaluate.json``, which has some of the metrics."""
    write_predictions(PREDICTIONS, predictions)
    write_record(REPORTS / "slices.json", slices)
    with replace_directory(PLOTS / "evaluation") as partial:
        write_plots(partial, predictions)
        scores = []
        for scored in slices.slices:
            score = f"{slices.value(scored):.6g}"
            scores.append((f"{scored.by}: {scored.name}", score, scored.rows))
        write_rows(partial / "slices.csv", ("slice", "score", "rows"), scores)
    write_record(EVALUATION, Metrics.of(metrics))


if __name__ == "__main__":
    run_stage("evaluate", main)
