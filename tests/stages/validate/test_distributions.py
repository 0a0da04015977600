import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import ks_2samp

from stages.validate.distributions import (
    Distribution,
    binned,
    coarse,
    ks_chance,
    ks_distance,
    stability_chance,
    stability_index,
)


def counts_of(values, reference: Distribution) -> np.ndarray:
    return binned(np.asarray(values), np.array(reference.edges))


def test_the_index_is_its_definition():
    """Sum of (p - q) ln(p / q), with half a row added to each bin."""
    p, q = np.array([0.3, 0.7]), np.array([0.5, 0.5])
    assert stability_index(np.array([2999.5, 6999.5]), np.array([4999.5, 4999.5])) == pytest.approx(
        np.sum((p - q) * np.log(p / q)), abs=1e-9
    )


def test_an_empty_bin_is_no_infinity():
    assert 1 < stability_index(np.array([100, 0]), np.array([50, 50])) < 10


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=200), st.lists(st.integers(-50, 50), min_size=1, max_size=200))
def test_the_distance_is_that_of_scipy_where_every_value_has_its_bin(values, others):
    """Below a hundred different values, percentiles are all of them."""
    edges = np.unique([*values, *others])
    ours = ks_distance(binned(np.array(values), edges), binned(np.array(others), edges))
    assert ours == pytest.approx(ks_2samp(values, others, method="asymp").statistic)


def test_the_distance_in_percentiles_is_close_to_the_whole_one():
    chance = np.random.default_rng(3)
    values, others = chance.normal(0.3, 1, 5000), chance.normal(0, 1, 8000)
    reference = Distribution.of_numbers(others)
    ours = ks_distance(counts_of(values, reference), np.array(reference.counts))
    theirs = ks_2samp(values, others, method="asymp")
    assert ours == pytest.approx(theirs.statistic, abs=0.011)
    assert np.log(ks_chance(ours, np.array([5000]), np.array([8000]))) == pytest.approx(np.log(theirs.pvalue), rel=0.2)


@pytest.mark.parametrize("rows", [30, 300, 3000])
def test_chance_alone_is_told_as_chance(rows):
    """Under no change, p falls below 0.05 about once in 20: neither often nor never."""
    chance = np.random.default_rng(rows)
    reference = Distribution.of_numbers(chance.exponential(size=20_000))
    found = []
    for _ in range(400):
        bins = coarse(counts_of(chance.exponential(size=rows), reference), np.array(reference.counts))
        found.append(stability_chance(stability_index(*bins), *bins) < 0.05)
    assert 0.004 < np.mean(found) < 0.1


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300))
def test_a_distribution_counts_every_number_once(values):
    found = Distribution.of_numbers(np.array(values))
    assert sum(found.counts) == len(values)
    assert len(found.counts) == len(found.edges) + 1
    assert stability_index(np.array(found.counts), np.array(found.counts)) == 0


@given(st.lists(st.integers(0, 50), min_size=1, max_size=120))
def test_coarse_bins_hold_the_same_rows(counts):
    here, there = coarse(np.array(counts), np.array(counts))
    assert here.sum() == sum(counts)
    assert len(here) <= 10
    assert here.tolist() == there.tolist()


def test_classes_have_a_bin_each():
    assert Distribution.of_classes(np.array([0, 2, 2, 1]), 3) == Distribution((0.0, 1.0), (1, 1, 2))
    assert Distribution.of_classes(np.array([0, 0]), 1) == Distribution((), (2,))
