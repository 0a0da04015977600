import numpy as np
import pytest

from tuneline.metrics.scores import compute_metric
from tuneline.metrics.stats import leak_difference
from tuneline.metrics.table import METRIC_TABLE


def predicted(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels, predictions that are better on leaked rows, and which rows are leaked."""
    generator = np.random.default_rng(0)
    leaked = generator.random(600) < 0.2
    if kind == "pearson":
        labels = generator.normal(size=600)
        return labels, labels + generator.normal(size=600) * np.where(leaked, 0.1, 1.0), leaked
    labels = generator.integers(0, 3, 600)
    return (
        labels,
        np.where(generator.random(600) < np.where(leaked, 0.98, 0.75), labels, (labels + 1) % 3),
        leaked,
    )


@pytest.mark.parametrize("name", ["accuracy", "f1", "pearson"])
def test_interval_equals_that_of_drawing_rows_of_each_stratum(name):
    metric = METRIC_TABLE[name]
    labels, predictions, leaked = predicted(name)
    difference = leak_difference(metric, labels, predictions, leaked)
    assert difference.first == pytest.approx(compute_metric(metric, labels, predictions))
    assert difference.second == pytest.approx(compute_metric(metric, labels[~leaked], predictions[~leaked]))
    generator, drawn = np.random.default_rng(1), []
    for _ in range(400):
        clean, others = (
            generator.choice(rows, len(rows)) for rows in (np.flatnonzero(~leaked), np.flatnonzero(leaked))
        )
        both = np.r_[clean, others]
        every, without = (compute_metric(metric, labels[rows], predictions[rows]) for rows in (both, clean))
        drawn.append(every - without)
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert (difference.low, difference.high) == pytest.approx((low, high), abs=0.2 * (high - low))
