"""Compare the logits of an exported model with those of the trained model, and check tolerances."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.compare.saturation import violation_of
from tuneline.curves import Softmax, calibration, calibration_error
from tuneline.files.schemas import LabelSchema
from tuneline.metrics import Metric, primary_metric
from tuneline.params.evaluate import Int8Tolerance, Tolerance
from tuneline.records.comparison import Saturation
from tuneline.scores import compute_metric, predictions_of, task_of
from tuneline.stats import Interval, accuracy_drop_interval, paired_difference

Logits = NDArray[np.float32]
SHOWN_ROWS = 10


@dataclass(frozen=True)
class Reference:
    """What exported models are compared with: the labels of the reported split and the trained model's logits.

    Attributes:
        labels: int64 or float32 of shape ``(rows,)``.
        label_schema: Label schema.
        logits: Logits of the trained model, shape ``(rows, outputs)``.
    """

    labels: NDArray[Any]
    label_schema: LabelSchema
    logits: Logits

    @property
    def metric(self) -> Metric:
        """Metric whose drop is limited."""
        return primary_metric(task_of(self.label_schema))

    def score(self, logits: Logits) -> float:
        """Return that metric for some logits of shape ``(rows, outputs)``."""
        return compute_metric(self.metric, self.labels, predictions_of(logits, self.label_schema))

    def quality(self, logits: Logits) -> dict[str, float]:
        """Return the metric, and for a classifier the calibration error."""
        metrics = {self.metric.name: self.score(logits)}
        if not self.label_schema.is_regression:
            metrics["calibration_error"] = calibration_error(calibration(Softmax.of(logits), self.labels))
        return metrics


@dataclass(frozen=True)
class Comparison:
    """Comparison of one exported model with the trained model.

    Attributes:
        metrics: By name: ``max_abs_diff`` and ``mean_abs_diff`` of logits, ``agreement`` (fraction of rows with the same
            prediction), ``flips`` (number of rows without), the metric and its drop with the ends of its bootstrap interval,
            and for a classifier ``calibration_error``.
        logits: Logits of the exported model, shape ``(rows, outputs)``, all finite.
        difference: Largest difference of a logit in each row, shape ``(rows,)``.
        flipped: Rows on which the predictions differ, the largest difference first.
        not_finite: Rows for which the model gives NaN or infinity.
        saturation: Result of the saturation check; ``None`` for a model without 8-bit products.
    """

    metrics: dict[str, float]
    logits: Logits
    difference: NDArray[np.float64]
    flipped: NDArray[np.int64]
    not_finite: NDArray[np.int64]
    saturation: Saturation | None = None


def compare_logits(reference: Reference, exported: Logits, close: float, seed: int) -> Comparison:
    """Compare the logits of an exported model with those of the trained model.

    Args:
        reference: Labels and the trained model's logits.
        exported: Same shape as ``reference.logits``. NaN and infinity count as 0, and their rows as ``not_finite``.
        close: Regression: two predictions agree within this fraction of the labels' standard deviation.
        seed: Seed of the bootstrap.
    """
    not_finite = np.flatnonzero(~np.isfinite(exported).all(axis=1))
    exported = np.nan_to_num(exported, nan=0.0, posinf=0.0, neginf=0.0)
    difference = np.abs(reference.logits.astype(np.float64) - exported)
    per_row = difference.max(axis=1)
    agrees = _agrees(reference, exported, per_row, close)
    agrees[not_finite] = False
    flipped = np.flatnonzero(~agrees)
    interval = _drop_interval(reference, exported, seed)
    drop = f"{reference.metric.name}_drop"
    metrics = {
        "max_abs_diff": float(per_row.max()),
        "mean_abs_diff": float(difference.mean()),
        "agreement": float(agrees.mean()),
        "flips": len(flipped),
        drop: reference.score(reference.logits) - reference.score(exported),
        f"{drop}_low": interval.low,
        f"{drop}_high": interval.high,
        **reference.quality(exported),
    }
    return Comparison(metrics, exported, per_row, flipped[np.argsort(-per_row[flipped], kind="stable")], not_finite)


def _agrees(reference: Reference, exported: Logits, difference: NDArray[np.float64], close: float) -> NDArray[np.bool_]:
    if reference.label_schema.is_regression:
        return np.asarray(difference <= close * reference.labels.std())
    return np.asarray(predictions_of(reference.logits, reference.label_schema) == predictions_of(exported, reference.label_schema))


def _drop_interval(reference: Reference, exported: Logits, seed: int) -> Interval:
    trained, other = predictions_of(reference.logits, reference.label_schema), predictions_of(exported, reference.label_schema)
    if reference.label_schema.is_regression:
        result = paired_difference(reference.metric, reference.labels, trained, other, seed=seed)
        return Interval(result.low, result.high)
    return accuracy_drop_interval(trained == reference.labels, other == reference.labels, seed)


def violations_of(comparison: Comparison, tolerance: Tolerance, metric: str) -> list[str]:
    """Return one message for each limit that a comparison exceeds, with the rows that show it."""
    metrics, drop = comparison.metrics, comparison.metrics[f"{metric}_drop"]
    worst = int(comparison.difference.argmax())
    violations = []
    if len(comparison.not_finite):
        violations.append(f"no finite logits for {rows_named(comparison.not_finite)}")
    if tolerance.max_abs_diff is not None and metrics["max_abs_diff"] > tolerance.max_abs_diff:
        violations.append(
            f"a logit of row {worst} differs by {metrics['max_abs_diff']:.3g}, more than max_abs_diff {tolerance.max_abs_diff:g}"
        )
    if metrics["agreement"] < tolerance.min_agreement:
        rows = rows_named(comparison.flipped)
        violations.append(f"agreement is {metrics['agreement']:.6g}, less than min_agreement {tolerance.min_agreement:g}: it flips {rows}")
    if drop > tolerance.max_metric_drop:
        violations.append(f"{metric} drops by {drop:.3g}, more than max_metric_drop {tolerance.max_metric_drop:g}")
    saturation_allowed = isinstance(tolerance, Int8Tolerance) and tolerance.allow_saturation
    if comparison.saturation and comparison.saturation.possible and not saturation_allowed:
        violations.append(violation_of(comparison.saturation))
    return violations


def rows_named(rows: NDArray[np.int64]) -> str:
    """Return row numbers for a message: the first ten given, in ascending order, and how many more there are."""
    shown = ", ".join(str(row) for row in np.sort(rows[:SHOWN_ROWS]))
    more = f" and {len(rows) - SHOWN_ROWS} more" if len(rows) > SHOWN_ROWS else ""
    return f"row{'s' * (len(rows) > 1)} {shown}{more}"
