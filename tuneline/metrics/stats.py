"""Confidence intervals of metrics and differences, McNemar's test, and the choice of the best model.

SciPy has Fisher's interval, ranks and the binomial test. Wilson's interval and the bootstrap are written out
here, because scipy.stats takes 1.7 s to import, which the report does not do otherwise, and is slower on what
is computed often (1,000 rows, one core): Wilson 0.6 ms against 0.001 ms (each slice and each behaviour test
has one), 1,000 resamples of an accuracy difference 15 ms against 0.3 ms, and 2.7 s against 0.5 ms with
100,000 rows, of a difference of Pearson's r 712 ms against 61 ms. The tests hold these functions against
SciPy's.

Arguments of the same name are the same everywhere: ``metric`` is an entry of the metric table, ``labels`` and
predictions are class ids or numbers of shape ``(rows,)`` with at least one row, ``average`` is how F1 is
averaged, ``seed`` is the seed of the draws.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuneline.metrics.scores import compute_metric, distinct_rows, numeric_columns
from tuneline.metrics.table import Averaging, Metric

if TYPE_CHECKING:
    from tuneline.metrics.table import CountScore, RowScore

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
    """A metric of two models on the same rows.

    ``low`` and ``high`` are the ends of the confidence interval of ``first - second``.
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
    """Return the score interval of a proportion of at least one trial.

    It is sound also for few trials and near 0 and 1.

    Source: Wilson 1927; Brown, Cai & DasGupta 2001, equation 4.
    """
    # The middle is drawn from the proportion towards 1/2, more so with few trials.
    proportion = successes / trials
    spread = _Z**2 / trials
    middle = (proportion + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * math.sqrt(proportion * (1 - proportion) / trials + spread / (4 * trials))
    # Rounding would leave the ends at 0 and 1 just beside them.
    low = 0.0 if successes == 0 else middle - half
    high = 1.0 if successes == trials else middle + half
    return Interval(low, high)


def exact_interval(successes: float, trials: int) -> Interval:
    """Return the exact interval of a proportion of at least one trial.

    It holds the true value at least as often as it says. ``successes`` may be a sum of numbers from 0 to 1.
    Numbers of the same mean vary most if all of them are 0 or 1, so the interval is wide enough for others.

    Source: Clopper & Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    binomial", Biometrika 26, 1934.
    """
    from scipy.stats import beta

    tail = (1 - LEVEL) / 2
    failures = trials - successes
    low = 0.0
    if successes > 0:
        low = float(beta.ppf(tail, successes, failures + 1))
    high = 1.0
    if failures > 0:
        high = float(beta.ppf(1 - tail, successes + 1, failures))
    return Interval(low, high)


def pearson_interval(labels: NDArray[Any], predictions: NDArray[Any]) -> Interval:
    """Return the interval of Pearson's r by its z-transform (Fisher 1921).

    It is -1 to 1 if r is undefined or 1, or of three rows or fewer.
    """
    if len(labels) <= 3 or np.ptp(labels) == 0 or np.ptp(predictions) == 0:
        return Interval(-1.0, 1.0)
    from scipy.stats import pearsonr

    low, high = pearsonr(labels.astype(np.float64), predictions.astype(np.float64)).confidence_interval(LEVEL)
    if low < high:
        return Interval(float(low), float(high))
    return Interval(-1.0, 1.0)


def metric_interval(
    metric: Metric,
    labels: NDArray[Any],
    predictions: NDArray[Any],
    *,
    average: Averaging = "macro",
    seed: int = 0,
) -> Estimate | None:
    """Return a metric with its interval by the method of the metric table; ``None`` if it has none."""
    if metric.interval == "none":
        return None
    if metric.interval == "bootstrap":
        observed, resampled = _bootstrap(metric, (labels, predictions), average, seed)
        value = float(observed[0])
        interval = percentile_interval(resampled[:, 0])
    elif metric.interval == "wilson":
        value = compute_metric(metric, labels, predictions, average)
        interval = wilson_interval(int(np.count_nonzero(labels == predictions)), len(labels))
    else:
        value = compute_metric(metric, labels, predictions, average)
        interval = pearson_interval(labels, predictions)
    return Estimate(value, interval.low, interval.high)


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

    Rows are drawn with replacement, both models are scored on the same draw, and percentiles of the
    difference bound it: errors that the models share do not widen the interval (Efron & Tibshirani, "An
    Introduction to the Bootstrap", 1993, section 13.3; for two systems on one test set: Koehn, "Statistical
    significance tests for machine translation evaluation", EMNLP 2004).
    """
    observed, resampled = _bootstrap(metric, (labels, first, second), average, seed, resamples=resamples)
    interval = percentile_interval(resampled[:, 0] - resampled[:, 1], level)
    return Difference(float(observed[0]), float(observed[1]), interval.low, interval.high)


def accuracy_drop_interval(trained: NDArray[np.bool_], exported: NDArray[np.bool_], seed: int) -> Interval:
    """Return the paired bootstrap interval of the drop of accuracy from one model to another.

    The arrays say where each model is right, shape ``(rows,)``.

    A row counts -1, 0 or 1, and rows of one kind are alike: drawing how many there are of each kind is
    drawing rows.
    """
    # A difference of two Boolean arrays is an error in NumPy.
    differences = trained.astype(np.int64) - exported
    kinds = np.array([-1, 0, 1])
    proportions = np.array([np.mean(differences == kind) for kind in kinds])
    drawn = np.random.default_rng(seed).multinomial(
        len(differences), proportions / proportions.sum(), size=RESAMPLES
    )
    return percentile_interval(drawn @ kinds / len(differences))


def percentile_interval(values: Floats, level: float = LEVEL) -> Interval:
    """Return the percentile interval of bootstrap values (Efron & Tibshirani 1993, chapter 13)."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def leak_difference(
    metric: Metric,
    labels: NDArray[Any],
    predictions: NDArray[Any],
    leaked: NDArray[np.bool_],
    *,
    average: Averaging = "macro",
    seed: int = 0,
) -> Difference:
    """Return a metric on all rows and on rows that are not leaked, with the interval of the difference.

    The interval is by a stratified bootstrap.

    Leaked and other rows are drawn separately, so that each draw has as many of both as the split (Efron &
    Tibshirani, "An Introduction to the Bootstrap", 1993, section 8.3), and both metrics are computed on the
    same draw. ``leaked`` is true for some of the rows.
    """
    observed, resampled = _bootstrap(metric, (labels, predictions), average, seed, leaked=leaked)
    interval = percentile_interval(resampled[:, 0] - resampled[:, 1])
    return Difference(float(observed[0]), float(observed[1]), interval.low, interval.high)


def _bootstrap(
    metric: Metric,
    columns: tuple[NDArray[Any], ...],
    average: Averaging,
    seed: int,
    *,
    resamples: int = RESAMPLES,
    leaked: NDArray[np.bool_] | None = None,
) -> tuple[Floats, Floats]:
    """Score models, given labels and the predictions of each model, on all rows and on resampled rows.

    Rows that are ``leaked`` are drawn separately; then there is one model, with a second score without these
    rows. Return the scores on all rows, shape ``(scores,)``, and on each draw, shape ``(resamples, scores)``.
    A metric without interval raises a ValueError.
    """
    if not metric.resampled:
        raise ValueError(f"{metric.name} cannot be resampled: the metric table gives it no interval")
    generator = np.random.default_rng(seed)
    if metric.count_score is not None:
        blocks = _class_scores(
            metric.count_score, columns, average, generator, resamples=resamples, leaked=leaked
        )
    elif metric.row_score is not None:
        blocks = _number_scores(
            metric.row_score,
            numeric_columns(columns, metric.on_ranks),
            generator,
            resamples=resamples,
            leaked=leaked,
        )
    # The first block is not a draw: it has the scores on all rows.
    observed = next(blocks)
    return observed[0], np.concatenate(list(blocks))


def _class_scores(
    score: "CountScore",
    columns: tuple[NDArray[Any], ...],
    average: Averaging,
    generator: np.random.Generator,
    *,
    resamples: int,
    leaked: NDArray[np.bool_] | None,
) -> Iterator[Floats]:
    """Yield the scores of class ids: on all rows, then on blocks of draws; each of shape ``(draws, scores)``.

    Rows with the same label, predictions and stratum are alike: drawing how many of each there are is drawing
    rows, and fast.
    """
    strata = np.zeros(len(columns[0]), np.int64) if leaked is None else leaked
    (labels, *models, stratum), counts, _ = distinct_rows((*columns, strata))

    # ``drawn`` counts the distinct rows, shape ``(draws, distinct)``.
    def scores(drawn: NDArray[np.int64]) -> Floats:
        weights = drawn.astype(np.float64)
        results = [score(weights, labels, predictions, average) for predictions in models]
        if leaked is not None:
            results.append(score(drawn * (stratum == 0).astype(np.float64), labels, models[0], average))
        return np.stack(results, axis=-1)

    yield scores(counts[None])
    for size in chunks(resamples, len(counts)):
        drawn = np.zeros((size, len(counts)), np.int64)
        for index in np.unique(stratum):
            members = stratum == index
            total = counts[members].sum()
            drawn[:, members] = generator.multinomial(total, counts[members] / total, size=size)
        yield scores(drawn)


def _number_scores(
    score: "RowScore",
    values: Floats,
    generator: np.random.Generator,
    *,
    resamples: int,
    leaked: NDArray[np.bool_] | None,
) -> Iterator[Floats]:
    """Yield the scores of numbers, as ``_class_scores`` does.

    Ranks are not computed again in each draw, which changes only ties.
    """
    # The stratum without leaked rows is the first one.
    if leaked is None:
        strata = [np.arange(values.shape[1])]
    else:
        strata = [np.flatnonzero(~leaked), np.flatnonzero(leaked)]
    labels = values[0]
    models = values[1:]

    # ``drawn`` has the row numbers of each stratum, shape ``(draws, rows of the stratum)``.
    def scores(drawn: list[NDArray[np.int64]]) -> Floats:
        rows = np.concatenate(drawn, axis=1)
        results = [score(labels[rows], predictions[rows]) for predictions in models]
        if leaked is not None:
            results.append(score(labels[drawn[0]], models[0][drawn[0]]))
        return np.stack(results, axis=-1)

    yield scores([rows[None] for rows in strata])
    for size in chunks(resamples, values.shape[1]):
        yield scores([rows[generator.integers(len(rows), size=(size, len(rows)))] for rows in strata])


def chunks(resamples: int, width: int) -> Iterator[int]:
    """Yield numbers of resamples, ``resamples`` in all, that fit into memory with ``width`` values each."""
    at_once = max(1, _VALUES_AT_A_TIME // width)
    for start in range(0, resamples, at_once):
        yield min(at_once, resamples - start)


def mcnemar_p_value(first_only: int, second_only: int) -> float:
    """Return the two-sided, exact p-value of McNemar's test of two classifiers.

    It is a binomial test of the discordant rows.

    Source: McNemar, "Note on the sampling error of the difference between correlated proportions or
    percentages", Psychometrika 12, 1947; the exact conditional form. Discordant rows are those that only the
    first or only the second model predicts correctly.
    """
    if first_only + second_only == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(first_only, first_only + second_only).pvalue)


@dataclass(frozen=True)
class Selection:
    """The best of several configurations, each with the predictions of one or more seeds.

    Attributes:
        best: Its index: the best mean over the seeds, of equal ones the first.
        value: This mean.
        corrected: The mean that is to be expected on new rows.
        low: Lower end of the interval of ``corrected``.
        high: Upper end.
        indistinguishable: Indexes of the other configurations whose paired bootstrap interval of the
            difference from the best contains 0.
    """

    best: int
    value: float
    corrected: float
    low: float
    high: float
    indistinguishable: tuple[int, ...]


def select_best(
    metric: Metric,
    labels: NDArray[Any],
    predictions: Sequence[Sequence[NDArray[Any]]],
    *,
    average: Averaging = "macro",
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Selection:
    """Choose the best configuration, and correct its metric for the luck of the choice.

    Both use the same rows.

    Method: bootstrap bias correction (Tsamardinos, Greasidou & Borboudakis, "Bootstrapping the out-of-sample
    predictions for efficient and accurate cross-validation", Machine Learning 107, 2018), on the predictions
    of one validation split instead of the predictions of all folds: rows are drawn with replacement, the best
    model is
    chosen on the drawn rows, and scored on the rows that were not drawn. The mean of these scores is the
    corrected metric, and their percentiles are its interval.

    Args:
        metric: Entry of the metric table that is computed from predictions.
        labels: Class ids or numbers, of shape ``(rows,)``.
        predictions: For each configuration and seed, of shape ``(rows,)``.
        average: How F1 is averaged.
        seed: Seed of the draws.
        resamples: Number of draws.
    """
    rows = len(labels)
    sign = 1 if metric.greater_is_better else -1
    generator = np.random.default_rng(seed)

    # draws: each configuration on the drawn rows, and on the rows that were not drawn
    inside_blocks = []
    outside_blocks = []
    for size in chunks(resamples, rows):
        drawn = generator.multinomial(rows, np.full(rows, 1 / rows), size=size)
        drawn = drawn[(drawn == 0).any(axis=1)]  # of very few rows, a draw may have all
        inside_blocks.append(_mean_scores(metric, labels, predictions, drawn, average))
        outside_blocks.append(_mean_scores(metric, labels, predictions, drawn == 0, average))
    inside = np.concatenate(inside_blocks)
    outside = np.concatenate(outside_blocks)

    # the configuration that each draw chooses, scored on rows that have not chosen it
    chosen = np.argmax(sign * inside, axis=1)
    values = np.take_along_axis(outside, chosen[:, None], axis=1)[:, 0]
    interval = percentile_interval(values)

    # the configuration that all rows choose, and the others that are as good
    observed = _mean_scores(metric, labels, predictions, np.ones((1, rows), np.int64), average)[0]
    best = int(np.argmax(sign * observed))
    indistinguishable = []
    for index in range(len(predictions)):
        difference = percentile_interval(inside[:, best] - inside[:, index], LEVEL)
        if index != best and difference.low <= 0 <= difference.high:
            indistinguishable.append(index)

    return Selection(
        best=best,
        value=float(observed[best]),
        corrected=float(np.mean(values)),
        low=interval.low,
        high=interval.high,
        indistinguishable=tuple(indistinguishable),
    )


def _mean_scores(
    metric: Metric,
    labels: NDArray[Any],
    predictions: Sequence[Sequence[NDArray[Any]]],
    weights: NDArray[Any],
    average: Averaging,
) -> Floats:
    """Return the mean over the seeds of each configuration, shape ``(draws, configurations)``."""
    # Seeds of a configuration are averaged: it is the configuration that is chosen, not a seed.
    means = []
    for seeds in predictions:
        scores = [_scores(metric, labels, predicted, weights, average) for predicted in seeds]
        means.append(np.mean(scores, axis=0))
    return np.stack(means, axis=-1)


def _scores(
    metric: Metric, labels: NDArray[Any], predictions: NDArray[Any], weights: NDArray[Any], average: Averaging
) -> Floats:
    """Return the metric of one model for each row of weights.

    A weight says how often a row of the split counts.
    """
    if metric.count_score is not None:
        (pair_labels, pair_predictions), pair_rows, inverse = distinct_rows((labels, predictions))
        counts = [np.bincount(inverse, row_weights, len(pair_rows)) for row_weights in weights]
        return metric.count_score(np.stack(counts).astype(np.float64), pair_labels, pair_predictions, average)
    if metric.row_score is None:
        raise ValueError(f"{metric.name} cannot be computed from predictions")

    # A metric of numbers is computed row by row: the drawn rows are repeated.
    values = numeric_columns((labels, predictions), metric.on_ranks)
    positions = np.arange(len(labels))
    scores = []
    for repetitions in weights.astype(np.int64):
        rows = np.repeat(positions, repetitions)
        scores.append(metric.row_score(values[0][rows][None], values[1][rows][None]))
    return np.concatenate(scores)
