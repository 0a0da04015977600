"""Confidence intervals of metrics and differences, and McNemar's test.

SciPy has Fisher's interval, ranks and the binomial test. Wilson's interval and the bootstrap are written out
here, because scipy.stats takes 1.7 s to import, and is slower on what is computed often: 1,000 resamples of
an accuracy difference of 1,000 rows take 15 ms there and 0.3 ms here. The tests hold these functions against
SciPy's.

Arguments of the same name are the same everywhere: ``metric`` is an entry of the metric table, ``labels`` and
predictions are class ids or numbers of shape ``(rows,)`` with at least one row, ``average`` is how F1 is
averaged, ``seed`` is the seed of the draws. ``clusters`` has a number for each row, equal for rows that are
not independent of each other (``tuneline/checks/analysis/clusters.py``); ``None``: each row is on its own. Of
rows in clusters, intervals are by ``tuneline/judge/metrics/effective_rows.py``, of other rows by methods that
need no such estimate.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuneline.judge.metrics.effective_rows import Members, RowClusters, score_bounds
from tuneline.judge.metrics.scores import compute_metric, distinct_rows, numeric_columns
from tuneline.judge.metrics.table import Averaging, Metric
from tuneline.model.tasks.task import Floats

if TYPE_CHECKING:
    from tuneline.judge.metrics.table import CountScore, RowScore


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

    It is sound also for few trials and near 0 and 1; ``score_bounds`` names the source.
    """
    return Interval(*score_bounds(successes / trials, trials, _Z))


def exact_interval(successes: float, trials: float) -> Interval:
    """Return the exact interval of a proportion of at least one trial.

    It holds the true value at least as often as it says. ``successes`` may be a sum of numbers from 0 to 1.
    Numbers of the same mean vary most if all of them are 0 or 1, so the interval is wide enough for others.
    Rows in clusters are as many trials as ``effective_rows`` says (Korn & Graubard 1998).

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


def mean_estimate(values: Floats, clusters: NDArray[Any] | None) -> Estimate:
    """Return the mean of values of at least one row, shape ``(rows,)``, with its interval."""
    rows = RowClusters.of(clusters, len(values))
    total = values.sum()

    def leave_out(members: Members) -> Iterator[Floats]:
        counts = np.bincount(members)
        sums = np.bincount(members, values)
        yield ((total - sums) / (len(values) - counts))[:, np.newaxis]

    mean = total / len(values)
    (variance,) = rows.variance(leave_out, np.array([mean]), values)
    half = rows.critical(LEVEL) * math.sqrt(variance)
    return Estimate(float(mean), float(mean - half), float(mean + half))


def effective_rows(outcomes: NDArray[Any], clusters: NDArray[Any] | None) -> float:
    """Return the number of independent rows whose mean varies as much as that of rows in clusters.

    ``outcomes`` are numbers of shape ``(rows,)``: 1 for a row that is right, for example.
    """
    rows = RowClusters.of(clusters, len(outcomes))
    return len(outcomes) / rows.design_effect(outcomes.astype(np.float64))


def pearson_interval(labels: NDArray[Any], predictions: NDArray[Any]) -> Interval:
    """Return the interval of Pearson's r by its z-transform (Fisher 1921, Metron 1).

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
    clusters: NDArray[Any] | None = None,
) -> Estimate:
    """Return a metric with its interval by the method of the metric table.

    Raises:
        ValueError: It has none: it is not ``resampled``.
    """
    if not metric.resampled:
        raise _no_interval(metric)
    rows = RowClusters.of(clusters, len(labels))
    value = compute_metric(metric, labels, predictions, average)
    if metric.interval == "score" or not rows.independent:
        interval = _score_interval(metric, (labels, predictions), average, rows)
    elif metric.interval == "bootstrap":
        scores = _scores_of(metric, (labels, predictions), average)
        interval = percentile_interval(scores.resampled(seed, RESAMPLES)[:, 0])
    elif metric.interval == "wilson":
        interval = wilson_interval(int(np.count_nonzero(labels == predictions)), len(labels))
    else:
        interval = pearson_interval(labels, predictions)
    return Estimate(value, interval.low, interval.high)


def _score_interval(
    metric: Metric, columns: tuple[NDArray[Any], NDArray[Any]], average: Averaging, rows: RowClusters
) -> Interval:
    """Return Wilson's interval of any metric, given labels and predictions.

    The metric is a share of its range. The number of rows is what makes the variance of a proportion that of
    the metric (Rao & Scott 1992; of clustered rows: Dean & Pagano 2015), so that the interval is sound near
    the ends of the range, too, where a bootstrap of few rows has no error to draw.
    """
    scores = _scores_of(metric, columns, average)
    observed = scores.on_all()
    outcomes = _outcomes(*columns)
    variance = float(rows.variance(scores.without, observed, outcomes)[0])

    # as a share
    width = 1.0 - metric.lowest
    share = float(observed[0] - metric.lowest) / width
    variance /= width**2
    if variance > 0 and 0 < share < 1:
        number = share * (1 - share) / variance
    else:
        number = _rows_of_first_error(metric, columns, average) / rows.design_effect(outcomes)
    low, high = score_bounds(share, number, rows.critical(LEVEL))
    return Interval(metric.lowest + width * low, metric.lowest + width * high)


def _rows_of_first_error(
    metric: Metric, columns: tuple[NDArray[Any], NDArray[Any]], average: Averaging
) -> float:
    """Return how many rows a metric without any error is of.

    An error of one row lowers accuracy by 1 in all rows, but F1 by 1 in twice the rows of its class. If
    errors are as likely on each row, the number is the sum of what they cost by the sum of its squares: a
    proportion of so many rows has the same variance.
    """
    labels = columns[0]
    if metric.count_score is None or not np.array_equal(*columns):
        return len(labels)
    (kinds,), counts, _ = distinct_rows((labels,))
    if len(kinds) < 2:
        return len(labels)

    # an error on a row of each kind: another label, the most frequent one, or all other labels
    if labels.ndim > 1:
        wrong = 1 - kinds
    else:
        order = np.argsort(-counts, kind="stable")
        wrong = np.where(kinds == kinds[order[0]], kinds[order[1]], kinds[order[0]])
    weights = np.concatenate(
        [np.tile(counts, (len(kinds), 1)) - np.eye(len(kinds)), np.eye(len(kinds))], axis=1
    )
    scores = metric.count_score(
        weights, np.concatenate([kinds, kinds]), np.concatenate([kinds, wrong]), average
    )
    costs = 1 - scores
    return float(counts @ costs / (counts @ costs**2))


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
    clusters: NDArray[Any] | None = None,
) -> Difference:
    """Return the difference of a metric of two models, with its paired interval.

    Rows are drawn with replacement, both models are scored on the same draw, and percentiles of the
    difference bound it: errors that the models share do not widen the interval (Efron & Tibshirani, "An
    Introduction to the Bootstrap", 1993, section 13.3; for two systems on one test set: Koehn, "Statistical
    significance tests for machine translation evaluation", EMNLP 2004). The interval of rows in clusters is
    Student's.
    """
    rows = RowClusters.of(clusters, len(labels))
    scores = _scores_of(metric, (labels, first, second), average)
    observed = scores.on_all()
    value = float(observed[0] - observed[1])
    if rows.independent:
        resampled = scores.resampled(seed, resamples)
        interval = percentile_interval(resampled[:, 0] - resampled[:, 1], level)
    else:
        outcomes = _outcomes(labels, first) - _outcomes(labels, second)
        width = 1.0 - metric.lowest
        half = min(rows.critical(level) * _clustered_error(scores, rows, outcomes, width), 2 * width)
        interval = Interval(max(value - half, -width), min(value + half, width))
    return Difference(float(observed[0]), float(observed[1]), interval.low, interval.high)


def _clustered_error(
    scores: "_ClassScores | _NumberScores", rows: RowClusters, outcomes: Floats, width: float
) -> float:
    """Return the standard error of the difference of two models on rows in clusters.

    Two models that differ nowhere, or in few clusters, may differ in others: one more cluster of average size
    for each model is added to the variance (Agresti & Min, "Simple improved confidence intervals for
    comparing matched proportions", Statistics in Medicine 24, 2005).
    """
    observed = scores.on_all()

    def leave_out(members: Members) -> Iterator[Floats]:
        for without in scores.without(members):
            yield without[:, :1] - without[:, 1:]

    variance = rows.variance(leave_out, observed[:1] - observed[1:], outcomes)[0]
    variance += (width * rows.design_effect(outcomes) / len(outcomes)) ** 2
    return math.sqrt(variance)


def percentile_interval(values: Floats, level: float = LEVEL) -> Interval:
    """Return the percentile interval of bootstrap values.

    Source: Efron & Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13.
    """
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def _no_interval(metric: Metric) -> ValueError:
    return ValueError(f"{metric.name} has no interval in tuneline/judge/metrics/table.py")


def _scores_of(
    metric: Metric, columns: tuple[NDArray[Any], ...], average: Averaging
) -> "_ClassScores | _NumberScores":
    """Return the scores of models, given labels and the predictions of each model."""
    if not metric.resampled:
        raise _no_interval(metric)
    if metric.count_score is not None:
        return _ClassScores(metric.count_score, columns, average)
    if metric.row_score is not None:
        return _NumberScores(metric.row_score, numeric_columns(columns, metric.on_ranks))
    raise ValueError(f"{metric.name} cannot be computed from predictions")


class _ClassScores:
    """Scores of class ids or sets of labels on any choice of rows.

    Rows with the same label and predictions are alike: drawing how many of each there are is drawing rows,
    and fast.
    """

    def __init__(self, score: "CountScore", columns: tuple[NDArray[Any], ...], average: Averaging) -> None:
        (labels, *models), counts, inverse = distinct_rows(columns)
        self._score = score
        self._labels = labels
        self._models = models
        self._counts = counts
        self._inverse = inverse
        self._average: Averaging = average

    def _scores(self, counts: NDArray[np.int64]) -> Floats:
        """Score numbers of the distinct rows, shape ``(draws, distinct)``."""
        weights = counts.astype(np.float64)
        results = []
        for predictions in self._models:
            results.append(self._score(weights, self._labels, predictions, self._average))
        return np.stack(results, axis=-1)

    def on_all(self) -> Floats:
        """Return the scores on all rows, shape ``(scores,)``."""
        scores: Floats = self._scores(self._counts[None])[0]
        return scores

    def resampled(self, seed: int, resamples: int) -> Floats:
        """Return the scores of rows that are drawn with replacement, shape ``(resamples, scores)``."""
        generator = np.random.default_rng(seed)
        total = self._counts.sum()
        blocks = []
        for size in chunks(resamples, len(self._counts)):
            blocks.append(self._scores(generator.multinomial(total, self._counts / total, size=size)))
        return np.concatenate(blocks)

    def without(self, members: Members) -> Iterator[Floats]:
        """Yield the scores without the rows of each number in ``members``, in parts ``(numbers, scores)``."""
        order = np.argsort(members, kind="stable")
        kinds = len(self._counts)
        start = 0
        for size in chunks(int(members.max()) + 1, kinds):
            # the rows of this part of the numbers
            end = start + size
            rows = order[slice(*np.searchsorted(members[order], (start, end)))]
            cells = (members[rows] - start) * kinds + self._inverse[rows]
            left_out = np.bincount(cells, minlength=size * kinds).reshape(size, kinds)
            yield self._scores(self._counts - left_out)
            start = end


class _NumberScores:
    """Scores of numbers, as ``_ClassScores`` has them of classes.

    Ranks are not computed again for other rows, which changes only ties.
    """

    def __init__(self, score: "RowScore", values: Floats) -> None:
        self._score = score
        self._values = values

    def _scores(self, rows: NDArray[np.int64]) -> Floats:
        """Score row numbers, shape ``(draws, rows)``."""
        labels, *models = self._values
        results = []
        for predictions in models:
            results.append(self._score(labels[rows], predictions[rows]))
        return np.stack(results, axis=-1)

    def on_all(self) -> Floats:
        """Return the scores on all rows, shape ``(scores,)``."""
        scores: Floats = self._scores(np.arange(self._values.shape[1])[None])[0]
        return scores

    def resampled(self, seed: int, resamples: int) -> Floats:
        """Return the scores of rows that are drawn with replacement, shape ``(resamples, scores)``."""
        generator = np.random.default_rng(seed)
        rows = self._values.shape[1]
        blocks = []
        for size in chunks(resamples, rows):
            blocks.append(self._scores(generator.integers(rows, size=(size, rows))))
        return np.concatenate(blocks)

    def without(self, members: Members) -> Iterator[Floats]:
        """Yield the scores without the rows of each number in ``members``, in parts ``(numbers, scores)``."""
        for number in range(int(members.max()) + 1):
            yield self._scores(np.flatnonzero(members != number)[None])


def _outcomes(labels: NDArray[Any], predictions: NDArray[Any]) -> Floats:
    """Return how right each prediction is, shape ``(rows,)``.

    Of class ids it is 0 or 1, of sets of labels the share of right decisions, of other numbers the negative
    squared difference of standard scores.
    """
    if labels.ndim > 1:
        shares: Floats = (labels == predictions).mean(axis=1)
        return shares
    if np.issubdtype(labels.dtype, np.integer):
        right: Floats = (labels == predictions).astype(np.float64)
        return right
    distances: Floats = (_standardized(labels) - _standardized(predictions)) ** 2
    return -distances


def _standardized(values: NDArray[Any]) -> Floats:
    numbers = values.astype(np.float64)
    deviation = float(numbers.std())
    standardized: Floats = (numbers - numbers.mean()) / (deviation or 1.0)
    return standardized


def chunks(resamples: int, width: int) -> Iterator[int]:
    """Yield numbers of resamples, ``resamples`` in all, that fit into memory with ``width`` values each."""
    at_once = max(1, _VALUES_AT_A_TIME // width)
    for start in range(0, resamples, at_once):
        yield min(at_once, resamples - start)


def mcnemar_p_value(net: NDArray[np.int64]) -> float:
    """Return the two-sided, exact p-value of McNemar's test of two classifiers, of rows in clusters.

    If the models are equally good, each cluster is as likely to favour one as the other: the test is over all
    signs of the clusters' net numbers. Of clusters of one row it is a binomial test of the discordant rows.

    Args:
        net: Of each cluster, the rows that only the first model predicts correctly less those that only the
            second does.

    Source: McNemar, "Note on the sampling error of the difference between correlated proportions or
    percentages", Psychometrika 12, 1947, the exact conditional form; Fisher, "The Design of Experiments",
    1935, section 21, on clusters as in Durkalski, Palesch, Lipsitz & Rust, "Analysis of clustered
    matched-pair data", Statistics in Medicine 22, 2003.
    """
    from scipy.signal import fftconvolve
    from scipy.stats import binom

    # the distribution of the sum: of clusters of one size, a binomial number has the plus sign
    sizes, clusters = np.unique(np.abs(net[net != 0]), return_counts=True)
    distribution = np.ones(1)
    for size, number in zip(sizes.tolist(), clusters.tolist(), strict=True):
        signs = np.zeros(size * number + 1)
        signs[::size] = binom.pmf(np.arange(number + 1), number, 0.5)
        distribution = fftconvolve(distribution, signs)

    # as extreme as the sum that was observed, which is in steps of two
    sums = 2 * np.arange(len(distribution)) - (len(distribution) - 1)
    p_value = float(distribution[np.abs(sums) >= abs(int(net.sum()))].sum())
    return min(max(p_value, 0.0), 1.0)
