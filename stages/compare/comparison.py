"""The figures by which an exported model is held against the trained one, and the judgement over them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.compare.saturation import Saturation
from tuneline.curves import calibration, calibration_error, probabilities
from tuneline.files.schemas import LabelSchema
from tuneline.metrics import predictions_of, regression_metrics
from tuneline.params.export import Int8Tolerance, Tolerance
from tuneline.stats import accuracy_drop_interval, pearson_drop_interval

Logits = NDArray[np.float32]
SHOWN_ROWS = 10


@dataclass(frozen=True)
class Rows:
    """The rows both models are asked about.

    Attributes:
        labels: int64 or float32 of shape ``[rows]``.
        label_schema: What labels and logits mean.
        trained: The trained model's logits, of shape ``[rows, outputs]``.
    """

    labels: NDArray[Any]
    label_schema: LabelSchema
    trained: Logits

    @property
    def metric(self) -> str:
        """The metric whose drop is gated."""
        return "pearson" if self.label_schema.is_regression else "accuracy"

    def score(self, logits: Logits) -> float:
        """That metric, of some logits."""
        predictions = predictions_of(logits, self.label_schema)
        if self.label_schema.is_regression:
            return regression_metrics(self.labels, predictions)["pearson"]
        return float(np.mean(predictions == self.labels))

    def quality(self, logits: Logits) -> dict[str, float]:
        """The metric, and for a classifier the calibration error."""
        figures = {self.metric: self.score(logits)}
        if not self.label_schema.is_regression:
            figures["calibration_error"] = calibration_error(calibration(probabilities(logits), self.labels))
        return figures


@dataclass(frozen=True)
class Comparison:
    """One exported model against the trained one.

    Attributes:
        metrics: Figures of the whole split, by name: ``max_abs_diff`` and ``mean_abs_diff`` of logits, ``agreement`` (share of
            rows with the same prediction), ``flips`` (rows without), the metric and its drop with the ends of its
            bootstrap interval, and for a classifier ``calibration_error``.
        logits: The exported model's, of shape ``[rows, outputs]``, numbers all.
        difference: The largest difference of a logit, by row.
        flipped: Rows on which the two do not agree, the largest difference first.
        broken: Rows for which the model gives NaN or infinity.
        saturation: Whether its 8-bit products can exceed 16 bits; ``None`` for a model without any.
    """

    metrics: dict[str, float]
    logits: Logits
    difference: NDArray[np.float64]
    flipped: NDArray[np.int64]
    broken: NDArray[np.int64]
    saturation: Saturation | None = None


def compare_logits(rows: Rows, exported: Logits, close: float, seed: int) -> Comparison:
    """Holds an exported model's logits against the trained one's.

    Args:
        rows: LabelSchema and the trained model's logits.
        exported: Same shape as ``rows.trained``. What is no finite number in it counts as 0, and the row as broken.
        close: Regression: the share of the labels' standard deviation within which two predictions agree.
        seed: Of the bootstrap.
    """
    broken = np.flatnonzero(~np.isfinite(exported).all(axis=1))
    exported = np.nan_to_num(exported, nan=0.0, posinf=0.0, neginf=0.0)
    difference = np.abs(rows.trained.astype(np.float64) - exported)
    per_row = difference.max(axis=1)
    agrees = _agrees(rows, exported, per_row, close)
    agrees[broken] = False
    flipped = np.flatnonzero(~agrees)
    low, high = _drop_interval(rows, exported, seed)
    drop = f"{rows.metric}_drop"
    metrics = {
        "max_abs_diff": float(per_row.max()),
        "mean_abs_diff": float(difference.mean()),
        "agreement": float(agrees.mean()),
        "flips": len(flipped),
        drop: rows.score(rows.trained) - rows.score(exported),
        f"{drop}_low": low,
        f"{drop}_high": high,
        **rows.quality(exported),
    }
    return Comparison(metrics, exported, per_row, flipped[np.argsort(-per_row[flipped], kind="stable")], broken)


def _agrees(rows: Rows, exported: Logits, difference: NDArray[np.float64], close: float) -> NDArray[np.bool_]:
    if rows.label_schema.is_regression:
        return np.asarray(difference <= close * rows.labels.std())
    return np.asarray(predictions_of(rows.trained, rows.label_schema) == predictions_of(exported, rows.label_schema))


def _drop_interval(rows: Rows, exported: Logits, seed: int) -> tuple[float, float]:
    trained, other = predictions_of(rows.trained, rows.label_schema), predictions_of(exported, rows.label_schema)
    if rows.label_schema.is_regression:
        return pearson_drop_interval(rows.labels, trained, other, seed)
    return accuracy_drop_interval(trained == rows.labels, other == rows.labels, seed)


def faults_of(found: Comparison, tolerance: Tolerance, metric: str) -> list[str]:
    """What is outside the tolerance, one clause each, with the rows that show it; empty when nothing is."""
    figures, drop = found.metrics, found.metrics[f"{metric}_drop"]
    worst = int(found.difference.argmax())
    said = []
    if len(found.broken):
        said.append(f"no finite logits for {rows_named(found.broken)}")
    if tolerance.max_abs_diff is not None and figures["max_abs_diff"] > tolerance.max_abs_diff:
        said.append(f"a logit of row {worst} differs by {figures['max_abs_diff']:.3g}, more than max_abs_diff {tolerance.max_abs_diff:g}")
    if figures["agreement"] < tolerance.min_agreement:
        flipped = rows_named(found.flipped)
        said.append(f"agreement is {figures['agreement']:.6g}, less than min_agreement {tolerance.min_agreement:g}: it flips {flipped}")
    if drop > tolerance.max_metric_drop:
        said.append(f"{metric} drops by {drop:.3g}, more than max_metric_drop {tolerance.max_metric_drop:g}")
    if found.saturation and found.saturation.possible and not (isinstance(tolerance, Int8Tolerance) and tolerance.allow_saturation):
        said.append(found.saturation.fault())
    return said


def rows_named(rows: NDArray[np.int64]) -> str:
    """Row numbers for a message: the first ten given, in ascending order, and how many more there are."""
    shown = ", ".join(str(row) for row in np.sort(rows[:SHOWN_ROWS]))
    more = f" and {len(rows) - SHOWN_ROWS} more" if len(rows) > SHOWN_ROWS else ""
    return f"row{'s' * (len(rows) > 1)} {shown}{more}"
