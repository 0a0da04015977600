"""Confidence intervals of metrics and of their differences, McNemar's test, and distances of distributions.

Closed forms and resampling are written out here, because scipy.stats takes 1.4 s to import and is slower on what is computed often
(1,000 rows, one core): Wilson 0.45 ms against 0.0004 ms (each slice and each behaviour test has one), 1,000 resamples of an accuracy
difference 15 ms against 0.3 ms, and 2.7 s against 0.5 ms with 100,000 rows, of a difference of Pearson's r 712 ms against 61 ms. The
tests hold these functions against scipy's. Tail probabilities come from scipy, imported where they are needed.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuneline.metrics import Averaging, Metric

Floats = NDArray[np.float64]

LEVEL = 0.95
_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)
RESAMPLES = 1_000
_VALUES_AT_A_TIME = 4_000_000
"""Resampled values in memory at a time: 32 MB a column."""


class Interval(NamedTuple):
    """Ends of a confidence interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """A metric with its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """A metric of two models on the same rows, with the confidence interval of the difference.

    Attributes:
        first: Metric of the first model on all rows.
        second: Metric of the second model on all rows.
        low: Lower end of the interval of ``first - second``.
        high: Upper end.
    """

    first: float
    second: float
    low: float
    high: float

    @property
    def value(self) -> float:
        """Difference on all rows."""
        return self.first - self.second


def wilson_interval(successes: int, trials: int) -> Interval:
    """Return the score interval of a proportion, sound also for few trials and near 0 and 1.

    Source: Wilson 1927; Brown, Cai & DasGupta 2001, equation 4.

    Args:
        successes: Number of successful trials.
        trials: At least 1.
    """
    proportion, spread = successes / trials, _Z**2 / trials
    middle = (proportion + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * math.sqrt(proportion * (1 - proportion) / trials + spread / (4 * trials))
    return Interval(0.0 if successes == 0 else middle - half, 1.0 if successes == trials else middle + half)  # exact ends


def pearson_interval(correlation: float, rows: int) -> Interval:
    """Return the interval of Pearson's r by its z-transform (Fisher 1921); -1 to 1 with three rows or fewer."""
    if rows <= 3 or abs(correlation) >= 1:
        return Interval(-1.0, 1.0)
    z, half = math.atanh(correlation), _Z / math.sqrt(rows - 3)
    return Interval(math.tanh(z - half), math.tanh(z + half))


def metric_interval(
    metric: Metric, labels: NDArray[Any], predictions: NDArray[Any], *, average: Averaging = "macro", seed: int = 0
) -> Estimate | None:
    """Return a metric with its interval, by the method that the metric table names; ``None`` for a metric without one.

    Args:
        metric: Entry of the metric table.
        labels: Shape ``(rows,)``; at least one row.
        predictions: Shape ``(rows,)``.
        average: How F1 is averaged.
        seed: Seed of the bootstrap.
    """
    if metric.interval == "none" or metric.score is None:
        return None
    if metric.interval == "bootstrap":
        observed, resampled = _bootstrap(metric, (labels, predictions), average, seed, RESAMPLES)
        return Estimate(float(observed[0]), *percentile_interval(resampled[:, 0]))
    rows = len(labels)
    if metric.interval == "wilson":
        return Estimate(metric.score(labels, predictions, average), *wilson_interval(int(np.count_nonzero(labels == predictions)), rows))
    value = metric.score(labels, predictions, average) if rows > 1 else 0.0
    return Estimate(value, *pearson_interval(value, rows))


def paired_difference(
    metric: Metric,
    labels: NDArray[Any],
    first: NDArray[Any],
    second: NDArray[Any],
    *,
    average: Averaging = "macro",
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Difference:
    """Return the difference of a metric of two models, with its paired bootstrap interval.

    Rows are drawn with replacement, both models are scored on the same draw, and percentiles of the difference bound it: errors that
    the models share do not widen the interval (Efron & Tibshirani, "An Introduction to the Bootstrap", 1993, section 13.3; for two
    systems on one test set: Koehn, "Statistical significance tests for machine translation evaluation", EMNLP 2004).

    Args:
        metric: Entry of the metric table with ``resampled``.
        labels: Shape ``(rows,)``: class ids, or numbers.
        first: Predictions of the one model, of the same shape.
        second: Predictions of the other.
        average: How F1 is averaged.
        seed: Seed of the draws.
        resamples: Number of draws.
        level: Confidence level of the two-sided interval.
    """
    observed, resampled = _bootstrap(metric, (labels, first, second), average, seed, resamples)
    return Difference(float(observed[0]), float(observed[1]), *percentile_interval(resampled[:, 0] - resampled[:, 1], level))


def accuracy_drop_interval(trained: NDArray[np.bool_], exported: NDArray[np.bool_], seed: int) -> Interval:
    """Return the paired bootstrap interval of the drop of accuracy from one model to another.

    A row counts -1, 0 or 1, and rows of one kind are alike: drawing how many there are of each kind is drawing rows.

    Args:
        trained: True where the first model is right, shape ``(rows,)``.
        exported: True where the second one is, shape ``(rows,)``.
        seed: Seed of the draws.
    """
    differences = trained.astype(np.int64) - exported
    kinds = np.array([-1, 0, 1])
    proportions = np.array([np.mean(differences == kind) for kind in kinds])
    drawn = np.random.default_rng(seed).multinomial(len(differences), proportions / proportions.sum(), size=RESAMPLES)
    return percentile_interval(drawn @ kinds / len(differences))


def percentile_interval(values: Floats, level: float = LEVEL) -> Interval:
    """Return the percentile interval of bootstrap values (Efron & Tibshirani 1993, chapter 13)."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def _bootstrap(metric: Metric, columns: tuple[NDArray[Any], ...], average: Averaging, seed: int, resamples: int) -> tuple[Floats, Floats]:
    """Score models on all rows and on resampled rows.

    Args:
        metric: Entry of the metric table.
        columns: Labels, then the predictions of each model; all of shape ``(rows,)``.
        average: How F1 is averaged.
        seed: Seed of the draws.
        resamples: Number of draws.

    Returns:
        The metric of each model on all rows, shape ``(models,)``, and on each draw, shape ``(resamples, models)``.

    Raises:
        ValueError: The metric table has no resampled form of the metric.
    """
    generator = np.random.default_rng(seed)
    if metric.count_score is not None:
        # Rows with the same label and predictions are alike: drawing how many of each there are is drawing rows, and fast.
        kinds, counts = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
        labels, models = kinds[:, 0], range(1, kinds.shape[1])
        drawn = (generator.multinomial(counts.sum(), counts / counts.sum(), size=size) for size in _chunks(resamples, len(kinds)))
        blocks = [counts[None], *drawn]
        scores = [[metric.count_score(block.astype(np.float64), labels, kinds[:, model], average) for model in models] for block in blocks]
    elif metric.row_score is not None:
        values = _numeric_columns(columns, metric.on_ranks)
        rows = values.shape[1]
        indices = (generator.integers(rows, size=(size, rows)) for size in _chunks(resamples, rows))
        samples = [values[:, None], *(values[:, index] for index in indices)]
        scores = [[metric.row_score(sample[0], predictions) for predictions in sample[1:]] for sample in samples]
    else:
        raise ValueError(f"{metric.name} cannot be resampled: the metric table gives it no count_score and no row_score")
    stacked = [np.stack(models_scores, axis=-1) for models_scores in scores]
    return stacked[0][0], np.concatenate(stacked[1:])


def _chunks(resamples: int, width: int) -> Iterator[int]:
    """Yield numbers of resamples, ``resamples`` in all, that fit into memory with ``width`` values each."""
    at_once = max(1, _VALUES_AT_A_TIME // width)
    yield from (min(at_once, resamples - start) for start in range(0, resamples, at_once))


def _numeric_columns(columns: tuple[NDArray[Any], ...], on_ranks: bool) -> Floats:
    """Return columns as float64 of shape ``(columns, rows)``, or their ranks.

    Ranks are not computed again in each resample, which changes nothing but ties.
    """
    stacked = np.stack([column.astype(np.float64) for column in columns])
    if not on_ranks:
        return stacked
    from scipy.stats import rankdata

    return np.asarray(rankdata(stacked, axis=1), dtype=np.float64)


def mcnemar_p_value(first_only: int, second_only: int) -> float:
    """Return the two-sided, exact p-value of McNemar's test of two classifiers: a binomial test of the discordant rows.

    Source: McNemar, "Note on the sampling error of the difference between correlated proportions or percentages", Psychometrika 12,
    1947; the exact conditional form.

    Args:
        first_only: Rows that only the first model predicts correctly.
        second_only: Rows that only the second one does.
    """
    if first_only + second_only == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(first_only, first_only + second_only).pvalue)
