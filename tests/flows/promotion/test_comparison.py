import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, pearsonr
from sklearn.metrics import accuracy_score, f1_score

from flows.promotion.comparison import commonest, interval, mcnemar, promotion_metric

ROWS = 400


def predictions(skill: float, labels: np.ndarray, seed: int, classes: int = 4) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return np.where(draw.random(len(labels)) < skill, labels, (labels + draw.integers(1, classes, len(labels))) % classes)


@pytest.fixture
def labels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 4, ROWS)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 5), st.integers(0, 10**6), st.sampled_from(["accuracy", "f1"]))
def test_metric_on_all_rows_equals_that_of_scikit_learn(classes, seed, metric):
    draw = np.random.default_rng(seed)
    labels, ours, theirs = draw.integers(0, classes, (3, 60))
    result = interval(metric, labels, ours, theirs, binary=classes == 2, resamples=200)
    average = "binary" if classes == 2 else "macro"
    score = accuracy_score if metric == "accuracy" else lambda y, p: f1_score(y, p, average=average, zero_division=0)
    assert result.candidate == pytest.approx(score(labels, ours))
    assert result.baseline == pytest.approx(score(labels, theirs))
    assert result.low <= result.high


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_interval_equals_that_of_a_bootstrap_over_rows(metric, labels):
    ours, theirs = predictions(0.8, labels, 1), predictions(0.75, labels, 2)
    score = accuracy_score if metric == "accuracy" else lambda y, p: f1_score(y, p, average="macro")
    draw = np.random.default_rng(3)
    drawn = []
    for _ in range(1500):
        rows = draw.integers(0, ROWS, ROWS)
        drawn.append(score(labels[rows], ours[rows]) - score(labels[rows], theirs[rows]))
    result = interval(metric, labels, ours, theirs, resamples=20_000)
    assert [result.low, result.high] == pytest.approx(np.percentile(drawn, [2.5, 97.5]), abs=0.008)


def test_interval_of_paired_accuracies_has_the_theoretical_width(labels):
    ours, theirs = predictions(0.85, labels, 1), predictions(0.8, labels, 2)
    per_row = (ours == labels).astype(float) - (theirs == labels)
    half = norm.ppf(0.975) * per_row.std() / np.sqrt(ROWS)
    result = interval("accuracy", labels, ours, theirs, resamples=20_000)
    assert (result.high - result.low) / 2 == pytest.approx(half, rel=0.05)


def test_interval_covers_the_true_difference_at_its_level():
    """300 data sets on which both models are as good: 95% of the intervals must hold 0."""
    covered = 0
    for seed in range(300):
        labels = np.random.default_rng(seed).integers(0, 4, 300)
        result = interval("accuracy", labels, predictions(0.8, labels, seed + 1000), predictions(0.8, labels, seed + 2000), resamples=500)
        covered += result.low <= 0 <= result.high
    assert 0.91 < covered / 300 < 0.985


def test_difference_of_equal_predictions_is_zero(labels):
    result = interval("accuracy", labels, labels, labels)
    assert (result.low, result.difference, result.high) == (0.0, 0.0, 0.0)


def test_same_data_gives_the_same_interval(labels):
    ours, theirs = predictions(0.8, labels, 1), predictions(0.8, labels, 2)
    assert interval("f1", labels, ours, theirs) == interval("f1", labels, ours, theirs)


def test_correlations_equal_those_of_scipy():
    draw = np.random.default_rng(0)
    labels = draw.normal(size=ROWS)
    ours, theirs = labels + draw.normal(size=ROWS) / 2, labels + draw.normal(size=ROWS)
    result = interval("pearson", labels, ours, theirs, resamples=2000)
    assert result.candidate == pytest.approx(pearsonr(labels, ours).statistic)
    assert result.baseline == pytest.approx(pearsonr(labels, theirs).statistic)
    assert 0 < result.low < result.difference < result.high


def test_correlation_of_a_constant_is_zero():
    draw = np.random.default_rng(0)
    labels = draw.normal(size=100)
    result = interval("pearson", labels, labels, np.zeros(100), resamples=200)
    assert result.baseline == 0.0
    assert result.low == pytest.approx(1.0)


def test_interval_of_a_long_split_is_drawn_in_chunks():
    draw = np.random.default_rng(0)
    labels = draw.normal(size=50_000)
    result = interval("pearson", labels, labels + draw.normal(size=50_000), labels * 0, resamples=200)
    assert result.low == pytest.approx(result.high, abs=0.02)


def test_mcnemar_counts_discordant_rows():
    labels = np.zeros(20, dtype=np.int64)
    ours, theirs = labels.copy(), labels.copy()
    theirs[:10], ours[10:12] = 1, 1
    result = mcnemar(labels, ours, theirs)
    assert (result.candidate_only, result.baseline_only) == (10, 2)
    # 2 * sum(C(12, k) for k in 0..2) / 2**12, by hand
    assert result.p == pytest.approx(2 * (1 + 12 + 66) / 4096)


def test_mcnemar_p_value_of_equal_models_is_one(labels):
    assert mcnemar(labels, labels, labels).p == 1.0


def test_commonest_returns_the_majority_baseline():
    assert commonest(np.array([2, 0, 2, 1])).tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("name", "task", "metric"), [(None, "classification", "accuracy"), (None, "regression", "pearson"), ("f1", "classification", "f1")]
)
def test_promotion_metric_is_the_named_one_or_the_primary_one(name, task, metric):
    assert promotion_metric(name, task) == metric


@pytest.mark.parametrize(
    ("name", "task"), [("pearson", "classification"), ("accuracy", "regression"), ("loss", "classification"), ("unknown", "regression")]
)
def test_promotion_metric_that_cannot_decide_is_an_error(name, task):
    with pytest.raises(ValueError, match=r"promotion\.metric .* choose one of (accuracy|pearson)"):
        promotion_metric(name, task)
