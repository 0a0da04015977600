"""Intervals and tests of rows in clusters, held against enumeration and the formulas of their sources."""

import itertools

import numpy as np
import pytest

from tuneline.judge.metrics.effective_rows import RowClusters
from tuneline.judge.metrics.stats import (
    effective_rows,
    mcnemar_p_value,
    metric_interval,
    paired_difference,
    wilson_interval,
)
from tuneline.judge.metrics.table import METRIC_TABLE

ACCURACY = METRIC_TABLE["accuracy"]
F1 = METRIC_TABLE["f1"]


def predictions(rows: int, right: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return labels of two classes, and predictions of which a share is right."""
    random = np.random.default_rng(seed)
    labels = random.integers(2, size=rows)
    return labels, np.where(random.random(rows) < right, labels, 1 - labels)


def repeated(columns: tuple[np.ndarray, ...], times: int) -> tuple[np.ndarray, ...]:
    return tuple(np.repeat(column, times) for column in columns)


@pytest.mark.parametrize("name", ["accuracy", "f1", "matthews_correlation"])
def test_rows_on_their_own_have_the_interval_of_rows_without_clusters(name):
    labels, predicted = predictions(200, 0.8)
    alone = metric_interval(METRIC_TABLE[name], labels, predicted)
    assert metric_interval(METRIC_TABLE[name], labels, predicted, clusters=np.arange(200)) == alone


@pytest.mark.parametrize("name", ["accuracy", "f1", "matthews_correlation"])
def test_copies_leave_the_interval_of_the_texts_almost_as_it_is(name):
    columns = predictions(200, 0.8)
    texts = metric_interval(METRIC_TABLE[name], *columns)
    clusters = np.repeat(np.arange(200), 6)
    rows = metric_interval(METRIC_TABLE[name], *repeated(columns, 6), clusters=clusters)
    assert rows.value == pytest.approx(texts.value)
    assert rows.high - rows.low == pytest.approx(texts.high - texts.low, rel=0.02)


def test_design_effect_is_that_of_kish():
    clusters = RowClusters.of(np.repeat(np.arange(3), [1, 2, 5]), 8)
    copies = np.repeat([0.0, 1.0, 1.0], [1, 2, 5])
    assert clusters.effective == pytest.approx(64 / 30)
    assert clusters.design_effect(copies) == pytest.approx(30 / 8)
    assert clusters.design_effect(np.ones(8)) == pytest.approx(30 / 8), "no row is wrong: taken for copies"


def test_unlike_rows_of_a_cluster_count_one_by_one():
    outcomes = np.tile([0.0, 1.0], 50)
    assert effective_rows(outcomes, np.repeat(np.arange(50), 2)) == 100


@pytest.mark.parametrize("sizes", [[30], [30, 1], [400, 1, 1, 1]])
def test_almost_one_cluster_says_almost_nothing(sizes):
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    ones = np.ones(len(clusters), np.int64)
    interval = metric_interval(ACCURACY, ones, ones, clusters=clusters)
    assert interval.low < 0.05
    assert interval.high == 1


@pytest.mark.parametrize(("positives", "least", "most"), [(10, 0.78, 0.9), (100, 0.97, 0.99)])
def test_f1_without_an_error_is_as_sure_as_the_rows_of_its_class(positives, least, most):
    """F1 is a function of a share of rows: the right ones, of those that have or get the class."""
    labels = np.repeat([1, 0], [positives, 1000 - positives])
    low = metric_interval(F1, labels, labels, average=1).low
    share = wilson_interval(positives, positives).low
    assert least < low < most
    assert low == pytest.approx(2 * share / (1 + share), abs=0.02)


@pytest.mark.parametrize("net", [[3, 3, -1], [5, 1, 1, -2, 2], [1, -4, 6, 6, -1, 2, 3]])
def test_mcnemar_of_clusters_counts_all_signs(net):
    sums = [abs(np.dot(signs, net)) for signs in itertools.product((-1, 1), repeat=len(net))]
    expected = np.mean(np.array(sums) >= abs(sum(net)))
    assert mcnemar_p_value(np.array(net)) == pytest.approx(expected)


def test_copies_do_not_make_a_difference_significant():
    labels = np.ones(12, np.int64)
    first, second = labels.copy(), labels.copy()
    second[:3] = 0
    columns = repeated((labels, first, second), 20)
    clusters = np.repeat(np.arange(12), 20)
    assert paired_difference(ACCURACY, *columns).low > 0
    difference = paired_difference(ACCURACY, *columns, clusters=clusters)
    assert difference.low < 0 < difference.high
