import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from tuneline.judge.evaluation import curves
from tuneline.model.tasks.probabilities import probabilities


def made(rows, classes=2, seed=0, skill=1.0):
    """Return probabilities that correlate with the labels, and the labels."""
    random = np.random.default_rng(seed)
    labels = random.integers(classes, size=rows)
    logits = random.normal(size=(rows, classes)).astype(np.float32)
    logits[np.arange(rows), labels] += skill
    return probabilities(logits), labels


@settings(max_examples=30)
@given(rows=st.integers(2, 3000), seed=st.integers(0, 1000), skill=st.floats(0, 4))
def test_thinned_curve_keeps_ends_bounds_and_area(rows, seed, skill):
    probability, labels = made(rows, seed=seed, skill=skill)
    if len(set(labels)) < 2:
        return
    roc = curves.roc_curve(probability, labels)
    false, true = roc["false_positive_rate"], roc["true_positive_rate"]
    assert len(false) <= curves.POINTS + 2
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert (np.diff(false) >= 0).all()
    assert metrics.auc(false, true) == pytest.approx(
        metrics.roc_auc_score(labels, probability[:, 1]), abs=0.01
    )


@settings(max_examples=50)
@given(scores=st.lists(st.integers(0, 9), min_size=2, max_size=80), data=st.data())
def test_curves_and_areas_equal_those_of_scikit_learn_with_tied_scores(scores, data):
    labels = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(scores), max_size=len(scores))))
    if len(set(labels)) < 2:
        return
    score = np.array(scores) / 10
    probability = probabilities(np.stack([np.zeros_like(score), score], axis=1))
    false, true, _ = metrics.roc_curve(labels, score)
    roc = curves.roc_curve(probability, labels)
    assert np.array_equal(roc["false_positive_rate"], false)
    assert np.array_equal(roc["true_positive_rate"], true)
    precision, recall, _ = metrics.precision_recall_curve(labels, score)
    assert np.array_equal(curves.precision_recall_curve(probability, labels)["precision"], precision[::-1])
    assert np.array_equal(curves.precision_recall_curve(probability, labels)["recall"], recall[::-1])
    assert curves.roc_area(probability, labels) == pytest.approx(
        metrics.roc_auc_score(labels, score), abs=1e-12
    )


def test_area_under_the_mean_curve_is_the_mean_area():
    probability, labels = made(800, classes=3)
    roc = curves.roc_curve(probability, labels)
    assert curves.roc_area(probability, labels) == pytest.approx(metrics.auc(*roc.values()), abs=0.01)


def test_rows_of_one_class_have_no_curve_and_no_area():
    probability, _ = made(20)
    labels = np.zeros(20, dtype=np.int64)
    assert [len(column) for column in curves.roc_curve(probability, labels).values()] == [0, 0]
    assert curves.roc_area(probability, labels) is None


@settings(max_examples=50)
@given(rows=st.integers(1, 300), classes=st.integers(2, 5), seed=st.integers(0, 1000))
def test_calibration_error_matches_its_definition(rows, classes, seed):
    probability, labels = made(rows, classes, seed)
    bins = curves.calibration(probability, labels)
    error = 0.0
    for index in range(curves.CALIBRATION_BINS):
        low, high = index / curves.CALIBRATION_BINS, (index + 1) / curves.CALIBRATION_BINS
        inside = [
            row
            for row in range(rows)
            if low <= probability[row].max() < high or (high == 1 and probability[row].max() == 1)
        ]
        if inside:
            right = np.mean([probability[row].argmax() == labels[row] for row in inside])
            error += len(inside) / rows * abs(right - np.mean([probability[row].max() for row in inside]))
    assert curves.calibration_error(bins) == pytest.approx(error, abs=1e-9)
    assert bins["rows"].sum() == rows
