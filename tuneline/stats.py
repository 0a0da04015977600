"""How sure a figure from few rows is, and how sure a difference of two that were measured on the same rows."""

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)
Interval = tuple[float, float]
RESAMPLES = 1_000


def wilson_interval(successes: int, trials: int) -> Interval:
    """Score interval of a share (Wilson 1927; Brown, Cai & DasGupta 2001, equation 4): sound also for few trials and near 0 and 1.

    Args:
        successes: How many of the trials.
        trials: At least 1.
    """
    share, spread = successes / trials, _Z**2 / trials
    middle = (share + spread / 2) / (1 + spread)
    reach = _Z / (1 + spread) * math.sqrt(share * (1 - share) / trials + spread / (4 * trials))
    low, high = middle - reach, middle + reach
    return (0.0 if successes == 0 else low, 1.0 if successes == trials else high)  # exact, without what rounding leaves


def pearson_interval(correlation: float, rows: int) -> Interval:
    """Interval of Pearson's r by its z-transform (Fisher 1921); everything, where there are too few rows to say."""
    if rows <= 3 or abs(correlation) >= 1:
        return (-1.0, 1.0)
    z, reach = math.atanh(correlation), _Z / math.sqrt(rows - 3)
    return math.tanh(z - reach), math.tanh(z + reach)


def accuracy_drop_interval(trained: NDArray[np.bool_], exported: NDArray[np.bool_], seed: int) -> Interval:
    """Percentile interval of the bootstrap (Efron & Tibshirani 1993, chapter 13) for the drop of accuracy.

    Both models are scored on the same drawn rows, so a drop that lies in rows they share is no noise. A row counts
    -1, 0 or 1, and rows of one kind are alike: drawing how many there are of each kind is drawing rows.

    Args:
        trained: Whether the trained model is right, of shape ``[rows]``.
        exported: Whether the exported one is.
        seed: Of the draws.
    """
    differences = trained.astype(np.int64) - exported
    rows = len(differences)
    kinds = np.array([-1, 0, 1])
    shares = np.array([np.mean(differences == kind) for kind in kinds])
    drawn = np.random.default_rng(seed).multinomial(rows, shares / shares.sum(), size=RESAMPLES)
    return _interval(drawn @ kinds / rows)


def pearson_drop_interval(labels: NDArray[np.float32], trained: NDArray[np.float32], exported: NDArray[np.float32], seed: int) -> Interval:
    """The same for the drop of Pearson's r: rows are drawn with replacement, for both models at once."""
    generator = np.random.default_rng(seed)
    columns = np.stack([labels, trained, exported]).astype(np.float64)
    drops = np.empty(RESAMPLES)
    for position in range(RESAMPLES):
        label, one, other = columns[:, generator.integers(0, len(labels), len(labels))]
        drops[position] = _pearson(label, one) - _pearson(label, other)
    return _interval(drops)


def _pearson(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Pearson's r, 0 where one of the two is constant."""
    first, second = first - first.mean(), second - second.mean()
    scale = np.sqrt((first @ first) * (second @ second))
    return float(first @ second / scale) if scale > 0 else 0.0


def _interval(values: NDArray[np.float64]) -> Interval:
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
