import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tuneline.judge.metrics.scores import compute_metric
from tuneline.judge.metrics.stats import (
    exact_interval,
    mcnemar_p_value,
    metric_interval,
    paired_difference,
    pearson_interval,
    wilson_interval,
)
from tuneline.judge.metrics.table import METRIC_TABLE

ACCURACY, F1, PEARSON, SPEARMAN = (METRIC_TABLE[name] for name in ("accuracy", "f1", "pearson", "spearmanr"))

OUTCOMES = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=200)


@given(st.integers(1, 2000).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))))
def test_intervals_of_a_proportion_equal_those_of_scipy(numbers):
    successes, trials = numbers
    for interval, method, error in ((wilson_interval, "wilson", 1e-12), (exact_interval, "exact", 1e-9)):
        expected = stats.binomtest(successes, trials).proportion_ci(0.95, method=method)
        assert interval(successes, trials) == (
            pytest.approx(expected.low, abs=error),
            pytest.approx(expected.high, abs=error),
        )


def test_exact_interval_of_parts_of_successes_holds_the_mean_often_enough():
    # most rows succeed, some in part
    parts, shares = np.array([0.0, 0.5, 0.8, 1.0]), np.array([0.01, 0.04, 0.05, 0.9])
    random = np.random.default_rng(0)
    held = 0
    for _ in range(1000):
        low, high = exact_interval(random.choice(parts, 300, p=shares).sum(), 300)
        held += low <= parts @ shares <= high
    assert held >= 950


@given(rows=st.integers(4, 500), seed=st.integers(0, 50))
def test_pearson_interval_is_that_of_fishers_z_transform(rows, seed):
    first, second = np.random.default_rng(seed).normal(size=(2, rows))
    z, half = np.arctanh(np.corrcoef(first, second)[0, 1]), 1.959964 / np.sqrt(rows - 3)
    assert pearson_interval(first, second) == (
        pytest.approx(np.tanh(z - half), abs=1e-6),
        pytest.approx(np.tanh(z + half), abs=1e-6),
    )


@pytest.mark.parametrize(
    ("labels", "predictions"),
    [([0, 0, 2, 2], [0, 0, 2, 2]), ([1, 2, 4], [1, 3, 2]), ([1], [2]), ([1, 2, 3, 4, 5], [0.1] * 5)],
    ids=["perfect", "three rows", "one row", "constant"],
)
def test_pearson_interval_that_is_undefined_is_everything(labels, predictions):
    assert pearson_interval(np.array(labels), np.array(predictions)) == (-1.0, 1.0)


def accuracy_drop_interval(trained, exported, seed):
    """Return the interval of the drop of accuracy, given which rows each model predicts correctly."""
    outcomes = (trained.astype(np.int64), exported.astype(np.int64))
    difference = paired_difference(ACCURACY, np.ones(len(trained), np.int64), *outcomes, seed=seed)
    return difference.low, difference.high


@given(OUTCOMES)
def test_accuracy_drop_interval_is_zero_for_models_that_agree(outcomes):
    trained, exported = np.array(outcomes).T
    low, high = accuracy_drop_interval(trained, exported, seed=0)
    assert -1 <= low <= high <= 1
    if not np.any(trained != exported):
        assert (low, high) == (0, 0)


def test_accuracy_drop_interval_equals_that_of_a_bootstrap_over_rows():
    generator = np.random.default_rng(1)
    trained, exported = generator.random(500) < 0.9, generator.random(500) < 0.85
    draws = generator.integers(0, 500, (20_000, 500))
    drops = trained[draws].mean(axis=1) - exported[draws].mean(axis=1)
    np.testing.assert_allclose(
        accuracy_drop_interval(trained, exported, 0), np.quantile(drops, [0.025, 0.975]), atol=0.004
    )


@pytest.mark.parametrize("name", ["f1", "matthews_correlation"])
def test_bootstrap_interval_equals_that_of_a_bootstrap_over_rows(name):
    metric = METRIC_TABLE[name]
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 3, 400)
    predictions = np.where(generator.random(400) < 0.8, labels, 0)
    drawn = [
        compute_metric(metric, labels[rows], predictions[rows])
        for rows in generator.integers(0, 400, (500, 400))
    ]
    result = metric_interval(metric, labels, predictions)
    assert result.value == pytest.approx(compute_metric(metric, labels, predictions))
    assert [result.low, result.high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.012)


def test_mcnemar_p_value_equals_the_binomial_test():
    for first, second in ((10, 2), (3, 0), (40, 25), (5, 5)):
        net = np.repeat([1, -1, 0], [first, second, 20])
        assert mcnemar_p_value(net) == pytest.approx(stats.binomtest(first, first + second).pvalue)
    assert mcnemar_p_value(np.zeros(5, np.int64)) == 1.0
