import numpy as np
import pytest
from scipy.stats import ks_2samp

from tuneline.analysis.drift import (
    Distribution,
    bin_counts,
    kolmogorov_smirnov,
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


def test_ks_distance_on_percentiles_is_close_to_the_exact_one():
    rng = np.random.default_rng(3)
    values, others = rng.normal(0.3, 1, 5000), rng.normal(0, 1, 8000)
    reference = Distribution.of_numbers(others)
    ours = kolmogorov_smirnov(counts_of(values, reference), np.array(reference.counts))
    theirs = ks_2samp(values, others, method="asymp")
    assert ours.value == pytest.approx(theirs.statistic, abs=0.011)
    assert np.log(ours.p_value) == pytest.approx(np.log(theirs.pvalue), rel=0.2)


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
