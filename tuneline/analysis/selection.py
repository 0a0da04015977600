"""The best of several models, chosen by a metric on the rows that also measure it: what it is worth without the luck of the choice.

Method: bootstrap bias correction (Tsamardinos, Greasidou & Borboudakis, "Bootstrapping the out-of-sample predictions for efficient and
accurate cross-validation", Machine Learning 107, 2018), on the predictions of one validation split instead of those of all folds: rows are
drawn with replacement, the best model is chosen on the drawn rows, and scored on the rows that were not drawn. The mean of these scores is
the corrected metric, and their percentiles are its interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.metrics.scores import numeric_columns
from tuneline.metrics.stats import LEVEL, RESAMPLES, chunks, percentile_interval
from tuneline.metrics.table import Averaging, Metric

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Selection:
    """The best of several configurations, each with the predictions of one or more seeds.

    Attributes:
        best: Its index: the best mean over the seeds, of equal ones the first.
        value: This mean.
        corrected: The mean that is to be expected on new rows.
        low: Lower end of the interval of ``corrected``.
        high: Upper end.
        indistinguishable: Indexes of the other configurations whose paired bootstrap interval of the difference from the best contains 0.
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
    """Choose the best configuration, and correct its metric for the choice.

    Args:
        metric: Entry of the metric table that is computed from predictions.
        labels: Class ids or numbers, of shape ``(rows,)``.
        predictions: For each configuration and seed, of shape ``(rows,)``.
        average: How F1 is averaged.
        seed: Seed of the draws.
        resamples: Number of draws.
    """
    rows, sign, generator = len(labels), 1 if metric.greater_is_better else -1, np.random.default_rng(seed)

    def means(weights: NDArray[Any]) -> Floats:
        """Return the mean over the seeds, of shape ``(draws, configurations)``."""
        means = [np.mean([_scores(metric, labels, one, weights, average) for one in seeds], axis=0) for seeds in predictions]
        return np.stack(means, axis=-1)

    blocks = []
    for size in chunks(resamples, rows):
        drawn = generator.multinomial(rows, np.full(rows, 1 / rows), size=size)
        drawn = drawn[(drawn == 0).any(axis=1)]  # of very few rows, a draw may have all
        blocks.append((means(drawn), means(drawn == 0)))
    observed = means(np.ones((1, rows), np.int64))[0]
    inside, outside = (np.concatenate(one) for one in zip(*blocks, strict=True))
    values = np.take_along_axis(outside, np.argmax(sign * inside, axis=1)[:, None], axis=1)[:, 0]
    best = int(np.argmax(sign * observed))
    intervals = [percentile_interval(inside[:, best] - inside[:, other], LEVEL) for other in range(len(predictions))]
    same = tuple(index for index, interval in enumerate(intervals) if index != best and interval.low <= 0 <= interval.high)
    return Selection(best, float(observed[best]), float(np.mean(values)), *percentile_interval(values), same)


def _scores(metric: Metric, labels: NDArray[Any], predictions: NDArray[Any], weights: NDArray[Any], average: Averaging) -> Floats:
    """Return the metric of one model for each row of weights, which say how often a row of the split counts."""
    if metric.count_score is not None:
        pairs, inverse = np.unique(np.stack([labels, predictions]), axis=1, return_inverse=True)
        counts = np.stack([np.bincount(inverse.ravel(), one, pairs.shape[1]) for one in weights]).astype(np.float64)
        return metric.count_score(counts, pairs[0], pairs[1], average)
    if metric.row_score is None:
        raise ValueError(f"{metric.name} cannot be computed from predictions")
    values = numeric_columns((labels, predictions), metric.on_ranks)
    positions = np.arange(len(labels))
    draws = [np.repeat(positions, one) for one in weights.astype(np.int64)]
    return np.concatenate([metric.row_score(values[0][rows][None], values[1][rows][None]) for rows in draws])
