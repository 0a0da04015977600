"""Flipped rows: an exported model predicts another label than the trained one. With texts, for people."""

from collections.abc import Sequence

import numpy as np

from stages.compare.logits import LogitComparison, Logits, TrainedLogits
from tuneline.core.tables import SplitReader
from tuneline.evaluation.probability_scores import confidences
from tuneline.onnx.comparison_records import Flip, FlippedPrediction

LIMIT = 100
"""Flipped rows described per model: the ones whose logits differ most."""


def describe_flips(
    comparison: LogitComparison, reference: TrainedLogits, raw: SplitReader, text_columns: Sequence[str]
) -> list[Flip]:
    """Return the flipped rows with their texts: at most ``LIMIT``, the largest difference first."""
    rows = comparison.flipped[:LIMIT]
    labels = reference.labels[rows].tolist()

    # The raw split is read in the order of its rows; the texts then take the order of the flips.
    order = np.argsort(rows)
    texts = raw.take(rows[order], text_columns).take(np.argsort(order)).to_pylist()

    flips = []
    for row, text, label in zip(rows, texts, labels, strict=True):
        flip = Flip(
            row=int(row),
            text=text,
            label=reference.task.label_value(label),
            trained=_prediction(reference, reference.logits, row),
            exported=_prediction(reference, comparison.logits, row),
            difference=float(comparison.difference[row]),
        )
        flips.append(flip)
    return flips


def _prediction(reference: TrainedLogits, logits: Logits, row: int) -> FlippedPrediction:
    task = reference.task
    row_logits = logits[row : row + 1]
    (prediction,) = task.predictions(row_logits)
    value = task.label_value(prediction)
    (probability,) = confidences(task, row_logits).tolist()
    if not task.has_classes:
        return FlippedPrediction(prediction=value)
    return FlippedPrediction(prediction=value, probability=probability)
