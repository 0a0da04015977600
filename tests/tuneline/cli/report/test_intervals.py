import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from tuneline.cli.report import intervals

CLASSES = 4
ANSWERS = st.lists(st.tuples(st.integers(0, CLASSES - 1), st.integers(0, CLASSES - 1)), min_size=1, max_size=60)


@pytest.mark.filterwarnings("ignore:A single label:UserWarning")
@given(ANSWERS)
@settings(max_examples=100, deadline=None)
def test_figures_of_a_confusion_matrix_are_those_of_the_rows(pairs):
    labels, answers = np.array(pairs).T
    confusion = intervals.confusion_of(labels, answers, CLASSES)
    assert intervals.accuracy(confusion) == pytest.approx(sklearn_metrics.accuracy_score(labels, answers))
    assert intervals.f1_macro(confusion) == pytest.approx(sklearn_metrics.f1_score(labels, answers, average="macro", zero_division=0))
    assert intervals.matthews_correlation(confusion) == pytest.approx(sklearn_metrics.matthews_corrcoef(labels, answers), abs=1e-9)


def test_f1_of_two_classes_is_that_of_class_one():
    labels, answers = np.array([1, 1, 0, 0, 1]), np.array([1, 0, 0, 1, 1])
    assert intervals.f1_binary(intervals.confusion_of(labels, answers, 2)) == pytest.approx(sklearn_metrics.f1_score(labels, answers))


def test_the_interval_of_an_accuracy_is_as_wide_as_theory_says():
    """1,000 rows, 80 % right: 1.96 standard errors are 0.0248."""
    labels = np.zeros(1000, np.int64)
    answers = (np.arange(1000) >= 800).astype(np.int64)
    found = intervals.classified(intervals.accuracy, labels, answers, 2, seed=0)
    assert found.value == 0.8
    assert (0.8 - found.low, found.high - 0.8) == (pytest.approx(0.0248, abs=0.003), pytest.approx(0.0248, abs=0.003))


def test_the_same_seed_gives_the_same_interval():
    labels, answers = np.random.default_rng(0).integers(0, 3, (2, 100))
    once, again, other = (intervals.classified(intervals.f1_macro, labels, answers, 3, seed=seed) for seed in (1, 1, 2))
    assert once == again
    assert once != other


def test_two_models_that_answer_alike_do_not_differ():
    labels, answers = np.random.default_rng(0).integers(0, 3, (2, 100))
    found = intervals.classified_change(intervals.accuracy, labels, answers, answers, 3, seed=0)
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_a_change_is_surer_than_two_intervals_side_by_side():
    """Both models err on the same hard rows: scored on the same draws, what they share is no noise."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 2000)
    then = np.where(generator.random(2000) < 0.2, 1 - labels, labels)
    now = then.copy()
    now[np.flatnonzero(then != labels)[:60]] = labels[np.flatnonzero(then != labels)[:60]]
    change = intervals.classified_change(intervals.accuracy, labels, now, then, 2, seed=0)
    one, other = (intervals.classified(intervals.accuracy, labels, answers, 2, seed=0) for answers in (now, then))
    assert change.value == pytest.approx(0.03)
    assert change.low > 0, "clearly better"
    assert other.high > one.low, "which the two intervals alone would not show"


def test_pearson_and_its_change():
    generator = np.random.default_rng(0)
    labels = generator.normal(size=400)
    good, poor = labels + 0.3 * generator.normal(size=400), labels + 3 * generator.normal(size=400)
    found = intervals.correlated(labels, good, seed=0)
    assert found.value == pytest.approx(np.corrcoef(labels, good)[0, 1])
    assert found.low < found.value < found.high < 1
    assert intervals.correlated(labels, good, poor, seed=0).low > 0


def test_a_constant_answer_has_no_correlation():
    assert intervals.pearson(np.arange(5.0), np.ones(5)) == 0
