import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy.stats import ks_2samp

from tuneline.analysis.drift import (
    Distribution,
    bin_counts,
    kolmogorov_smirnov,
    merge_bins,
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


def test_stability_index_is_finite_with_an_empty_bin():
    assert 1 < population_stability(np.array([100, 0]), np.array([50, 50])).value < 10


@given(
    st.lists(st.integers(-50, 50), min_size=1, max_size=200),
    st.lists(st.integers(-50, 50), min_size=1, max_size=200),
)
def test_ks_distance_equals_scipy_if_every_value_has_its_bin(values, others):
    """With fewer than 100 different values, the percentiles are all of them."""
    edges = np.unique([*values, *others])
    ours = kolmogorov_smirnov(bin_counts(np.array(values), edges), bin_counts(np.array(others), edges)).value
    assert ours == pytest.approx(ks_2samp(values, others, method="asymp").statistic)


def test_ks_distance_on_percentiles_is_close_to_the_exact_one():
    rng = np.random.default_rng(3)
    values, others = rng.normal(0.3, 1, 5000), rng.normal(0, 1, 8000)
    reference = Distribution.of_numbers(others)
    ours = kolmogorov_smirnov(counts_of(values, reference), np.array(reference.counts))
    theirs = ks_2samp(values, others, method="asymp")
    assert ours.value == pytest.approx(theirs.statistic, abs=0.011)
    assert np.log(ours.p_value) == pytest.approx(np.log(theirs.pvalue), rel=0.2)


@pytest.mark.parametrize("rows", [30, 300, 3000])
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


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300))
def test_distribution_counts_every_number_once(values):
    distribution = Distribution.of_numbers(np.array(values))
    assert sum(distribution.counts) == len(values)
    assert len(distribution.counts) == len(distribution.edges) + 1
    assert population_stability(np.array(distribution.counts), np.array(distribution.counts)).value == 0


@given(st.lists(st.integers(0, 50), min_size=1, max_size=120))
def test_merged_bins_keep_all_rows(counts):
    here, there = merge_bins(np.array(counts), np.array(counts))
    assert here.sum() == sum(counts)
    assert len(here) <= 10
    assert here.tolist() == there.tolist()


def test_label_distribution_has_a_bin_for_each_class():
    assert Distribution.of_classes(np.array([0, 2, 2, 1]), 3) == Distribution((0.0, 1.0), (1, 1, 2))
    assert Distribution.of_classes(np.array([0, 0]), 1) == Distribution((), (2,))


@pytest.mark.parametrize("level", [0.05, 0.25, 0.5, 0.95])
def test_quantile_is_that_of_the_numbers(level):
    values = np.random.default_rng(0).integers(0, 1000, 5000)
    assert Distribution.of_numbers(values).quantile(level) == np.quantile(
        values, level, method="inverted_cdf"
    )


def test_quantile_beyond_the_last_edge_is_that_edge():
    assert Distribution((1.0, 2.0), (1, 1, 8)).quantile(0.5) == 2
