"""Scores the trained classifier on the reported split.

Reads: ``models/classifier/``, ``data/tokenized/`` (the reported split, and the labels of train for the baseline), the section
``evaluate``.
Computes: the logits of every row, once; metrics through the evaluate library; curves.
Writes: ``reports/predictions.parquet``, ``plots/evaluation/``, ``metrics/evaluate.json``.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.batches import TokenizedSplit
from stages.entry import Figures, require, run_stage
from stages.errors import DataError
from stages.outs import replace_directory, replace_file, write_metrics
from stages.params import EvaluateParams
from stages.params.loading import load_params
from stages.paths import CLASSIFIER, METRICS, PLOTS, PREDICTIONS, TOKENIZED, split_file
from stages.scoring.baseline import baseline_metrics
from stages.scoring.curves import calibration, calibration_error, probabilities, ranking_metrics
from stages.scoring.formulas import averaging, loss_of, predictions_of
from stages.scoring.library import score
from stages.scoring.plots import write_plots
from stages.scoring.predictions import predictions_table
from stages.tables import LABELS, UNLABELLED, write_table

Logits = NDArray[np.float32]


def run(params: EvaluateParams, split: TokenizedSplit, train_labels: NDArray[Any], logits: Logits) -> dict[str, float]:
    """Metrics of one split, those of the baseline beside them.

    Args:
        params: The section ``evaluate``.
        split: The rows that were predicted.
        train_labels: Labels of the train split.
        logits: Shape ``[rows, outputs]``, in the order of the split.
    """
    average = averaging(split.spec, params.f1)
    metrics = score(split.labels, predictions_of(logits, split.spec), average, params.metrics or [])
    metrics |= {"loss": loss_of(logits, split.labels), "rows": len(split)}
    if not split.spec.is_regression:
        probability = probabilities(logits)
        metrics |= ranking_metrics(probability, split.labels)
        metrics["calibration_error"] = calibration_error(calibration(probability, split.labels))
    return metrics | baseline_metrics(train_labels, split.labels, split.spec, average)


def read_split(path: Path) -> TokenizedSplit:
    """Reads the reported split.

    Raises:
        DataError: It has no rows, or no labels.
    """
    split = TokenizedSplit.read(path)
    if len(split) == 0:
        raise DataError(f"{path} has no rows.", "Report on another split (evaluate.split), or give this one rows (data.splits).")
    unlabelled = np.flatnonzero(split.labels == UNLABELLED)
    if len(unlabelled) == len(split) or (len(unlabelled) and not split.spec.is_regression):  # -1 can be a number to predict
        raise DataError(
            f"{path}: {len(unlabelled)} of {len(split)} rows have no label, the first is row {unlabelled[0]}.",
            "Report on a split with labels: evaluate.split.",
        )
    return split


def main() -> Figures:
    """Loads the model, predicts, scores, and writes the outs."""
    params = load_params().evaluate
    split = read_split(require(split_file(TOKENIZED, params.split), made_by="tokenize"))
    train_labels = pq.read_table(require(split_file(TOKENIZED, "train"), made_by="tokenize"), columns=[LABELS])[LABELS].to_numpy()
    require(CLASSIFIER, made_by="train")

    from stages.scoring.predicting import Classifier

    classifier = Classifier.load(CLASSIFIER, split.spec)
    started = time.perf_counter()
    logits = classifier.logits(split, params.batch_size)
    seconds = time.perf_counter() - started
    metrics = run(params, split, train_labels, logits)
    with replace_file(PREDICTIONS) as partial:
        write_table(predictions_table(split, logits), partial)
    with replace_directory(PLOTS / "evaluation") as partial:
        write_plots(partial, logits, split.labels, split.spec)
    write_metrics(METRICS / "evaluate.json", metrics)
    return {"predicting_seconds": round(seconds, 2), "rows_per_second": round(len(split) / seconds, 1)}


if __name__ == "__main__":
    run_stage("evaluate", main)
