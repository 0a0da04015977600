"""The headline of the report: one metric with its interval, beside the baseline and a previous commit; and its figure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuneline.cli.report.predictions import Predictions
from tuneline.cli.report.svg import FIRST, MUTED, WIDTH, canvas, to_svg
from tuneline.files.schemas import LabelSchema
from tuneline.metrics import METRIC_TABLE, Averaging, primary_metric
from tuneline.paths import PREDICTIONS
from tuneline.repo import PreviousResult
from tuneline.scores import averaging
from tuneline.stats import Difference, Estimate, metric_interval, paired_difference

TOLERANCE = 1e-5
"""Largest difference between a metric computed here from the predictions and the one in metrics/evaluate.json."""


@dataclass(frozen=True)
class Headline:
    """One metric and what it is compared with.

    Attributes:
        name: Key in ``metrics/evaluate.json``.
        value: Of the trained model.
        interval: Its interval, where there are predictions.
        baseline: Metric of the majority baseline.
        tfidf: Metric of the TF-IDF baseline.
        previous: The result of another commit, where there is one.
        previous_interval: Interval of the previous value, where its predictions are still in the cache.
        change: From the previous result to this one, on the same rows.
        stale: True if the metrics were computed from other predictions.
    """

    name: str
    value: float
    interval: Estimate | None = None
    baseline: float | None = None
    tfidf: float | None = None
    previous: PreviousResult | None = None
    previous_interval: Estimate | None = None
    change: Difference | None = None
    stale: bool = False

    @property
    def title(self) -> str:
        """The metric's name for people."""
        return METRIC_TABLE[self.name].title

    @property
    def previous_value(self) -> float | None:
        """The metric of the previous result."""
        return self.previous.metrics.get(self.name) if self.previous else None

    @property
    def against_baseline(self) -> str:
        """Comparison with the baseline, in words."""
        if self.baseline is None:
            return ""
        if self.interval is None:
            return f"{self._better} the baseline" if self._oriented(self.value - self.baseline) > 0 else f"not {self._better} the baseline"
        low, high = sorted(self._oriented(end - self.baseline) for end in (self.interval.low, self.interval.high))
        if low > 0:
            return f"clearly {self._better} the baseline"
        return f"clearly {self._worse} the baseline" if high < 0 else f"not clearly {self._better} the baseline"

    @property
    def against_previous(self) -> str:
        """Comparison with the previous result, in words."""
        if self.change is None:
            return ""
        low, high = sorted(self._oriented(end) for end in (self.change.low, self.change.high))
        if low > 0:
            return "clearly better"
        return "clearly worse" if high < 0 else "no clear difference"

    def _oriented(self, difference: float) -> float:
        """Return a difference with the sign that makes a gain positive."""
        return difference if METRIC_TABLE[self.name].greater_is_better else -difference

    @property
    def _better(self) -> str:
        return "above" if METRIC_TABLE[self.name].greater_is_better else "below"

    @property
    def _worse(self) -> str:
        return "below" if METRIC_TABLE[self.name].greater_is_better else "above"


def headline(
    metrics: Mapping[str, float], params: Mapping[str, Any], predictions: Predictions | None, previous: PreviousResult | None
) -> Headline | None:
    """Choose the headline metric and compare it.

    Args:
        metrics: ``metrics/evaluate.json``.
        params: Parameters of the run: ``train.metric`` is the headline if it was measured on the reported split.
        predictions: Predictions of the model.
        previous: The result of another commit.
    """
    candidates = (params.get("train.metric"), primary_metric("classification").name, primary_metric("regression").name)
    name = next((name for name in candidates if name in METRIC_TABLE and name in metrics), None)
    if name is None:
        return None
    value = metrics[name]
    baseline = metrics.get(METRIC_TABLE[name].baseline or "", METRIC_TABLE[name].uninformed)
    tfidf = metrics.get(METRIC_TABLE[name].tfidf)
    interval = interval_of(name, params, predictions)
    stale = interval is not None and abs(interval.value - value) > TOLERANCE
    if stale:
        return Headline(name, value, baseline=baseline, tfidf=tfidf, previous=previous, stale=True)
    cached = previous.file(PREDICTIONS.as_posix()) if previous else None
    before = Predictions.read(cached) if cached else None
    if before is not None and (predictions is None or before.names != predictions.names or not same_rows(before, predictions)):
        before = None
    change = change_of(name, params, predictions, before) if predictions and before else None
    return Headline(name, value, interval, baseline, tfidf, previous, interval_of(name, params, before), change)


def same_rows(one: Predictions, other: Predictions) -> bool:
    """Return True if the predictions of two models are of the same rows, as far as labels show."""
    return bool(np.array_equal(one.labels, other.labels))


def interval_of(name: str, params: Mapping[str, Any], predictions: Predictions | None) -> Estimate | None:
    """Return a metric with its interval; ``None`` without predictions, or if the metric table gives it no interval."""
    if predictions is None or len(predictions.labels) == 0:
        return None
    average, seed = _settings(params, predictions)
    return metric_interval(METRIC_TABLE[name], predictions.labels, predictions.predicted, average=average, seed=seed)


def change_of(name: str, params: Mapping[str, Any], now: Predictions, before: Predictions) -> Difference | None:
    """Return the change of a metric between two models on the same rows; ``None`` if it has no bootstrap interval."""
    if not METRIC_TABLE[name].resampled or len(now.labels) == 0:
        return None
    average, seed = _settings(params, now)
    return paired_difference(METRIC_TABLE[name], now.labels, now.predicted, before.predicted, average=average, seed=seed)


def _settings(params: Mapping[str, Any], predictions: Predictions) -> tuple[Averaging, int]:
    average = averaging(LabelSchema(predictions.names), params.get("evaluate.f1"))
    return average, int(params.get("seed") or 0)


def draw_headline(headline: Headline) -> str:
    """Draw the metric of the baselines, the previous result and this model on one axis, with intervals where they are known."""
    rows: list[tuple[str, float, Estimate | None, str]] = []
    if headline.baseline is not None:
        rows.append(("baseline", headline.baseline, None, MUTED))
    if headline.tfidf is not None:
        rows.append(("TF-IDF", headline.tfidf, None, MUTED))
    if headline.previous_value is not None and headline.previous is not None:
        rows.append((headline.previous.commit.short, headline.previous_value, headline.previous_interval, MUTED))
    rows.append(("this model", headline.value, headline.interval, FIRST))
    with canvas((WIDTH, 0.55 + 0.5 * len(rows))) as (figure, axes):
        for height, (_, value, interval, colour) in enumerate(reversed(rows)):
            if interval is not None:
                axes.plot([interval.low, interval.high], [height, height], color=colour, linewidth=5, alpha=0.3)
            axes.plot([value], [height], marker="o", markersize=7, color=colour)
            axes.annotate(f"{value:.3f}", (value, height), xytext=(0, 7), textcoords="offset points", ha="center")
        axes.set_yticks(range(len(rows)), [row[0] for row in reversed(rows)])
        axes.set_ylim(-0.5, len(rows) - 0.2)
        axes.margins(x=0.08)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.grid(visible=False, axis="y")
        return to_svg(figure, "headline", f"{headline.title} of the baselines, the previous commit and this model")
