import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, pearsonr
from sklearn.metrics import accuracy_score, f1_score

from flows.promotion.comparison import commonest, interval, mcnemar

ROWS = 400


def predictions(skill: float, labels: np.ndarray, seed: int, classes: int = 4) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return np.where(draw.random(len(labels)) < skill, labels, (labels + draw.integers(1, classes, len(labels))) % classes)


@pytest.fixture
def labels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 4, ROWS)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 5), st.integers(0, 10**6), st.sampled_from(["accuracy", "f1"]))
def test_the_metric_on_all_rows_is_that_of_scikit_learn(classes, seed, metric):
    draw = np.random.default_rng(seed)
    labels, ours, theirs = draw.integers(0, classes, (3, 60))
    found = interval(metric, labels, ours, theirs, binary=classes == 2, resamples=200)
    average = "binary" if classes == 2 else "macro"
    score = accuracy_score if metric == "accuracy" else lambda y, p: f1_score(y, p, average=average, zero_division=0)
    assert found.candidate == pytest.approx(score(labels, ours))
    assert found.baseline == pytest.approx(score(labels, theirs))
    assert found.low <= found.high


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_drawing_triples_is_drawing_rows(metric, labels):
    """The fast way must give the interval that the textbook's loop over drawn rows gives."""
    ours, theirs = predictions(0.8, labels, 1), predictions(0.75, labels, 2)
    score = accuracy_score if metric == "accuracy" else lambda y, p: f1_score(y, p, average="macro")
    draw = np.random.default_rng(3)
    drawn = []
    for _ in range(1500):
        rows = draw.integers(0, ROWS, ROWS)
        drawn.append(score(labels[rows], ours[rows]) - score(labels[rows], theirs[rows]))
    found = interval(metric, labels, ours, theirs, resamples=20_000)
    assert [found.low, found.high] == pytest.approx(np.percentile(drawn, [2.5, 97.5]), abs=0.008)


def test_the_interval_of_paired_accuracies_has_the_width_that_theory_gives(labels):
    ours, theirs = predictions(0.85, labels, 1), predictions(0.8, labels, 2)
    per_row = (ours == labels).astype(float) - (theirs == labels)
    half = norm.ppf(0.975) * per_row.std() / np.sqrt(ROWS)
    found = interval("accuracy", labels, ours, theirs, resamples=20_000)
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.05)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """300 data sets on which both models are as good: 95% of the intervals must hold 0."""
    covered = 0
    for seed in range(300):
        labels = np.random.default_rng(seed).integers(0, 4, 300)
        found = interval("accuracy", labels, predictions(0.8, labels, seed + 1000), predictions(0.8, labels, seed + 2000), resamples=500)
        covered += found.low <= 0 <= found.high
    assert 0.91 < covered / 300 < 0.985


def test_the_same_predictions_differ_by_nothing(labels):
    found = interval("accuracy", labels, labels, labels)
    assert (found.low, found.difference, found.high) == (0.0, 0.0, 0.0)


def test_the_same_data_gives_the_same_interval(labels):
    ours, theirs = predictions(0.8, labels, 1), predictions(0.8, labels, 2)
    assert interval("f1", labels, ours, theirs) == interval("f1", labels, ours, theirs)


def test_correlations_are_those_of_scipy():
    draw = np.random.default_rng(0)
    labels = draw.normal(size=ROWS)
    ours, theirs = labels + draw.normal(size=ROWS) / 2, labels + draw.normal(size=ROWS)
    found = interval("pearson", labels, ours, theirs, resamples=2000)
    assert found.candidate == pytest.approx(pearsonr(labels, ours).statistic)
    assert found.baseline == pytest.approx(pearsonr(labels, theirs).statistic)
    assert 0 < found.low < found.difference < found.high


def test_a_constant_correlates_with_nothing():
    draw = np.random.default_rng(0)
    labels = draw.normal(size=100)
    found = interval("pearson", labels, labels, np.zeros(100), resamples=200)
    assert found.baseline == 0.0
    assert found.low == pytest.approx(1.0)


def test_long_splits_are_drawn_in_parts():
    draw = np.random.default_rng(0)
    labels = draw.normal(size=50_000)
    found = interval("pearson", labels, labels + draw.normal(size=50_000), labels * 0, resamples=200)
    assert found.low == pytest.approx(found.high, abs=0.02)


def test_mcnemar_counts_rows_that_one_has_right_and_the_other_wrong():
    labels = np.zeros(20, dtype=np.int64)
    ours, theirs = labels.copy(), labels.copy()
    theirs[:10], ours[10:12] = 1, 1
    found = mcnemar(labels, ours, theirs)
    assert (found.candidate_only, found.baseline_only) == (10, 2)
    # 2 * sum(C(12, k) for k in 0..2) / 2**12, by hand
    assert found.p == pytest.approx(2 * (1 + 12 + 66) / 4096)


def test_mcnemar_of_models_that_agree_says_nothing(labels):
    assert mcnemar(labels, labels, labels).p == 1.0


def test_the_commonest_label_stands_in_for_a_model():
    assert commonest(np.array([2, 0, 2, 1])).tolist() == [2, 2, 2, 2]
