"""How sure a difference of two metrics is, when both were measured on the same rows."""

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1_000
LEVEL = 0.95

Interval = tuple[float, float]


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
