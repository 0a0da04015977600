"""How often accuracy, F1 and Matthews correlation show that one of two classifiers is better, by balance.

Start: ``python -m benchmarks.metric_power``. Each class is a normal distribution around a corner of a
simplex, and both classifiers are the best possible ones for what they see: the second sees classes that are
closer to each other, and 60 % of the noise is common to both. A draw has ``ROWS`` test rows; a metric shows
the difference if its paired interval is above 0.
"""

import numpy as np
from numpy.typing import NDArray

from tuneline.judge.metrics.stats import paired_difference
from tuneline.judge.metrics.table import METRIC_TABLE

ROWS = 1_000
DRAWS = 150
RESAMPLES = 400
COMMON = 0.6
METRICS = ("accuracy", "f1", "matthews_correlation")
TWO = (0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0.03)
"""Shares of the rarer one of two classes."""
FIVE = (
    (1, 1, 1, 1, 1),
    (2, 2, 2, 2, 1),
    (5, 5, 5, 5, 2),
    (4, 4, 4, 4, 1),
    (10, 10, 10, 10, 1),
    (1, 1, 2, 4, 12),
)
"""Relative sizes of five classes."""


def predictions(
    generator: np.random.Generator, shares: NDArray[np.float64], distances: tuple[float, float]
) -> list[NDArray[np.int64]]:
    """Return labels and the predictions of both classifiers, each of shape ``(ROWS,)``."""
    labels = generator.choice(len(shares), p=shares, size=ROWS)
    common = generator.normal(size=(ROWS, len(shares)))
    columns = [labels]
    for distance in distances:
        own = generator.normal(size=common.shape)
        seen = np.sqrt(COMMON) * common + np.sqrt(1 - COMMON) * own
        seen[np.arange(ROWS), labels] += distance
        columns.append((distance * seen + np.log(shares)).argmax(axis=1))
    return columns


def print_power(sizes: tuple[float, ...], distances: tuple[float, float]) -> None:
    """Print the share of draws in which each metric shows the difference, and the mean of both values."""
    generator = np.random.default_rng(0)
    shares = np.array(sizes) / np.sum(sizes)
    cells = [" ".join(f"{share:.2f}" for share in shares)]
    average = 1 if len(shares) == 2 else "macro"
    draws = [predictions(generator, shares, distances) for _ in range(DRAWS)]
    for name in METRICS:
        shown = 0
        values = []
        for seed, (labels, first, second) in enumerate(draws):
            difference = paired_difference(
                METRIC_TABLE[name],
                labels,
                first,
                second,
                average=average,
                seed=seed,
                resamples=RESAMPLES,
            )
            shown += difference.low > 0
            values.append((difference.first, difference.second))
        better, worse = np.mean(values, axis=0)
        cells.append(f"{name} {shown / DRAWS:.2f} ({better:.3f}, {worse:.3f})")
    print(" | ".join(cells))


def main() -> None:
    """Print one line for each balance."""
    for share in TWO:
        print_power((1 - share, share), (2.6, 2.2))
    for sizes in FIVE:
        print_power(sizes, (2.9, 2.6))


if __name__ == "__main__":
    main()
