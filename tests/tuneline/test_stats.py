import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tuneline.stats import RESAMPLES, accuracy_drop_interval, pearson_drop_interval, pearson_interval, wilson_interval

OUTCOMES = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=200)


@settings(deadline=None)
@given(st.integers(1, 2000).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))))
def test_the_interval_of_a_share_is_scipys(numbers):
    successes, trials = numbers
    wanted = stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    assert wilson_interval(successes, trials) == (pytest.approx(wanted.low, abs=1e-12), pytest.approx(wanted.high, abs=1e-12))


def test_few_rows_say_little():
    low, high = wilson_interval(3, 3)
    assert (low, high) == (pytest.approx(0.4385, abs=1e-4), 1.0)


@settings(deadline=None)
@given(rows=st.integers(4, 500), seed=st.integers(0, 50))
def test_the_interval_of_a_correlation_is_scipys(rows, seed):
    first, second = np.random.default_rng(seed).normal(size=(2, rows))
    found = stats.pearsonr(first, second)
    wanted = found.confidence_interval(0.95)
    assert pearson_interval(float(found.statistic), rows) == (pytest.approx(wanted.low, abs=1e-9), pytest.approx(wanted.high, abs=1e-9))


@pytest.mark.parametrize(("correlation", "rows"), [(1.0, 50), (0.3, 3), (0.0, 1)])
def test_what_cannot_be_said_is_not_said(correlation, rows):
    assert pearson_interval(correlation, rows) == (-1.0, 1.0)


@given(OUTCOMES)
def test_the_interval_of_an_accuracy_drop_lies_around_it_or_beside_by_chance_only(outcomes):
    trained, exported = np.array(outcomes).T
    low, high = accuracy_drop_interval(trained, exported, seed=0)
    assert -1 <= low <= high <= 1
    if not np.any(trained != exported):
        assert (low, high) == (0, 0)


def test_drawing_kinds_of_rows_is_drawing_rows():
    """The same interval, but for chance, as from the bootstrap written out."""
    generator = np.random.default_rng(1)
    trained, exported = generator.random(500) < 0.9, generator.random(500) < 0.85
    draws = generator.integers(0, 500, (20_000, 500))
    drops = trained[draws].mean(axis=1) - exported[draws].mean(axis=1)
    np.testing.assert_allclose(accuracy_drop_interval(trained, exported, 0), np.quantile(drops, [0.025, 0.975]), atol=0.004)


def test_the_interval_of_a_correlation_drop_lies_around_it():
    generator = np.random.default_rng(1)
    labels = generator.normal(size=400).astype(np.float32)
    trained = labels + generator.normal(size=400).astype(np.float32) * 0.3
    exported = trained + generator.normal(size=400).astype(np.float32) * 0.3
    drop = np.corrcoef(labels, trained)[0, 1] - np.corrcoef(labels, exported)[0, 1]
    low, high = pearson_drop_interval(labels, trained, exported, seed=0)
    assert 0 < low < drop < high < 2 * drop


def test_a_constant_prediction_correlates_with_nothing():
    labels = np.arange(10, dtype=np.float32)
    low, high = pearson_drop_interval(labels, labels, np.zeros(10, np.float32), seed=0)
    assert (round(low, 6), round(high, 6)) == (1, 1)


def test_the_same_seed_gives_the_same_interval():
    generator = np.random.default_rng(1)
    trained, exported = generator.random(50) < 0.9, generator.random(50) < 0.8
    assert accuracy_drop_interval(trained, exported, 3) == accuracy_drop_interval(trained, exported, 3)
    assert RESAMPLES >= 1000
