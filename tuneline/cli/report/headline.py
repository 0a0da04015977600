"""The figure that a reader looks for first: how good, how sure, better than what."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuneline.cli.report import intervals
from tuneline.cli.report.intervals import Interval, Statistic
from tuneline.cli.report.predictions import Predictions
from tuneline.paths import PREDICTIONS
from tuneline.repo.previous import PreviousResult

TITLES = {
    "accuracy": "Accuracy",
    "f1": "F1",
    "matthews_correlation": "Matthews correlation",
    "pearson": "Pearson's r",
    "spearmanr": "Spearman's rho",
    "roc_auc": "Area under ROC",
    "average_precision": "Average precision",
    "calibration_error": "Calibration error",
    "mse": "Mean squared error",
    "loss": "Loss",
}
"""Metrics in the order in which they are shown."""
BASELINES = {"accuracy": "majority_accuracy", "f1": "majority_f1"}
UNINFORMED = {"matthews_correlation": 0.0, "pearson": 0.0, "spearmanr": 0.0}
"""Metrics that are 0, by convention, for an answer that looks at no text."""
TOLERANCE = 1e-5
"""Between a metric computed here from the predictions and the one that stands in metrics/evaluate.json."""


@dataclass(frozen=True)
class Headline:
    """One metric and what it is held against.

    Attributes:
        name: Key in ``metrics/evaluate.json``.
        value: Of the trained model.
        interval: Around it, where the predictions are there.
        baseline: Of the answer that looks at no text: the majority class.
        previous: The result of another commit, where there is one.
        previous_interval: Around the previous value, where its predictions are still in the cache.
        change: From the previous result to this one, on the same rows.
        stale: Whether the predictions are not those that the metrics were computed from.
    """

    name: str
    value: float
    interval: Interval | None = None
    baseline: float | None = None
    previous: PreviousResult | None = None
    previous_interval: Interval | None = None
    change: Interval | None = None
    stale: bool = False

    @property
    def title(self) -> str:
        """The metric's name for people."""
        return TITLES.get(self.name, self.name.replace("_", " "))

    @property
    def previous_value(self) -> float | None:
        """The metric of the previous result."""
        return self.previous.metrics.get(self.name) if self.previous else None

    @property
    def against_baseline(self) -> str:
        """Whether the model learned anything, in words."""
        if self.baseline is None:
            return ""
        if self.interval is None:
            return "above the baseline" if self.value > self.baseline else "not above the baseline"
        if self.interval.low > self.baseline:
            return "clearly above the baseline"
        return "clearly below the baseline" if self.interval.high < self.baseline else "not clearly above the baseline"

    @property
    def against_previous(self) -> str:
        """Whether it got better, in words."""
        if self.change is None:
            return ""
        if self.change.low > 0:
            return "clearly better"
        return "clearly worse" if self.change.high < 0 else "no clear difference"


def headline(
    metrics: Mapping[str, float], params: Mapping[str, Any], predictions: Predictions | None, previous: PreviousResult | None
) -> Headline | None:
    """Picks the metric and compares it.

    Args:
        metrics: ``metrics/evaluate.json``.
        params: What the line ran with: ``train.metric`` is the headline where it is one of the reported split's.
        predictions: The model's.
        previous: The result of another commit.
    """
    name = next((name for name in (params.get("train.metric"), "accuracy", "pearson") if name in TITLES and name in metrics), None)
    if name is None:
        return None
    value = metrics[name]
    baseline = metrics.get(BASELINES.get(name, ""), UNINFORMED.get(name))
    interval = interval_of(name, params, predictions)
    stale = interval is not None and abs(interval.value - value) > TOLERANCE
    if stale:
        return Headline(name, value, baseline=baseline, previous=previous, stale=True)
    cached = previous.file(PREDICTIONS.as_posix()) if previous else None
    before = Predictions.read(cached) if cached else None
    if before is not None and (predictions is None or before.names != predictions.names or not same_rows(before, predictions)):
        before = None
    change = interval_of(name, params, predictions, before) if before else None
    return Headline(name, value, interval, baseline, previous, interval_of(name, params, before), change)


def same_rows(one: Predictions, other: Predictions) -> bool:
    """Whether two models were asked about the same rows, as far as labels tell."""
    return bool(np.array_equal(one.labels, other.labels))


def interval_of(name: str, params: Mapping[str, Any], now: Predictions | None, then: Predictions | None = None) -> Interval | None:
    """The interval of a metric, or of its change; ``None`` where the metric has none here."""
    if now is None or len(now.labels) == 0:
        return None
    seed = int(params.get("seed") or 0)
    if now.names is None:
        return _of_numbers(name, seed, now, then)
    f1 = params.get("evaluate.f1") or ("binary" if len(now.names) == 2 else "macro")
    statistics: dict[str, Statistic] = {
        "accuracy": intervals.accuracy,
        "f1": intervals.f1_binary if f1 == "binary" else intervals.f1_macro,
        "matthews_correlation": intervals.matthews_correlation,
    }
    if name not in statistics:
        return None
    if then is not None:
        return intervals.classified_change(statistics[name], now.labels, now.predicted, then.predicted, len(now.names), seed=seed)
    return intervals.classified(statistics[name], now.labels, now.predicted, len(now.names), seed=seed)


def _of_numbers(name: str, seed: int, *predictions: Predictions | None) -> Interval | None:
    from scipy.stats import rankdata

    if name not in {"pearson", "spearmanr"}:
        return None
    given = [one for one in predictions if one is not None]
    columns = [np.asarray(column, dtype=np.float64) for column in (given[0].labels, *(one.predicted for one in given))]
    return intervals.correlated(*([rankdata(column) for column in columns] if name == "spearmanr" else columns), seed=seed)
