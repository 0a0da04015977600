import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from stages.scoring.intervals import pearson_interval, wilson_interval


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
    import numpy as np

    first, second = np.random.default_rng(seed).normal(size=(2, rows))
    found = stats.pearsonr(first, second)
    wanted = found.confidence_interval(0.95)
    assert pearson_interval(float(found.statistic), rows) == (pytest.approx(wanted.low, abs=1e-9), pytest.approx(wanted.high, abs=1e-9))


@pytest.mark.parametrize(("correlation", "rows"), [(1.0, 50), (0.3, 3), (0.0, 1)])
def test_what_cannot_be_said_is_not_said(correlation, rows):
    assert pearson_interval(correlation, rows) == (-1.0, 1.0)
