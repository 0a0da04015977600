import numpy as np
import pytest

from tuneline.checks.analysis.distributions import (
    Distribution,
    bin_counts,
    population_stability,
)


def counts_of(values, reference: Distribution) -> np.ndarray:
    return bin_counts(np.asarray(values), np.array(reference.edges))


def test_stability_index_follows_its_definition():
    """Sum of (p - q) ln(p / q), with half a row added to each bin."""
    p, q = np.array([0.3, 0.7]), np.array([0.5, 0.5])
    assert population_stability(
        np.array([2999.5, 6999.5]), np.array([4999.5, 4999.5])
    ).value == pytest.approx(np.sum((p - q) * np.log(p / q)), abs=1e-9)


@pytest.mark.parametrize("rows", [300])
def test_p_value_without_drift_is_rarely_significant(rows):
    """Without a change p is below 0.05 about once in 20 samples."""
    rng = np.random.default_rng(rows)
    reference = Distribution.of_numbers(rng.exponential(size=20_000))
    significant = []
    for _ in range(400):
        distance = population_stability(
            counts_of(rng.exponential(size=rows), reference), np.array(reference.counts)
        )
        significant.append(distance.p_value < 0.05)
    assert 0.004 < np.mean(significant) < 0.1
