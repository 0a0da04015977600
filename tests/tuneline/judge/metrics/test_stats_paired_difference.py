import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score

from tuneline.judge.metrics.stats import metric_interval, paired_difference
from tuneline.judge.metrics.table import METRIC_TABLE

ACCURACY, F1, PEARSON = (METRIC_TABLE[name] for name in ("accuracy", "f1", "pearson"))
ROWS = 400


def predictions(skill: float, labels: np.ndarray, seed: int, classes: int = 4) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return np.where(
        draw.random(len(labels)) < skill, labels, (labels + draw.integers(1, classes, len(labels))) % classes
    )


@pytest.fixture
def labels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 4, ROWS)


@settings(max_examples=50)
@given(st.integers(2, 5), st.integers(0, 10**6), st.sampled_from(["accuracy", "f1"]))
def test_paired_metrics_equal_those_of_scikit_learn(classes, seed, metric):
    draw = np.random.default_rng(seed)
    labels, ours, theirs = draw.integers(0, classes, (3, 60))
    average = 1 if classes == 2 else "macro"
    scored = [1] if classes == 2 else None
    result = paired_difference(METRIC_TABLE[metric], labels, ours, theirs, average=average, resamples=200)
    score = (
        accuracy_score
        if metric == "accuracy"
        else lambda y, p: f1_score(y, p, labels=scored, average="macro", zero_division=0)
    )
    assert result.first == pytest.approx(score(labels, ours))
    assert result.second == pytest.approx(score(labels, theirs))
    assert result.low <= result.high


def test_paired_difference_covers_the_true_difference_at_its_level():
    """300 data sets on which both models are as good: 95% of the intervals must hold 0."""
    covered = 0
    for seed in range(300):
        labels = np.random.default_rng(seed).integers(0, 4, 300)
        result = paired_difference(
            ACCURACY,
            labels,
            predictions(0.8, labels, seed + 1000),
            predictions(0.8, labels, seed + 2000),
            resamples=500,
        )
        covered += result.low <= 0 <= result.high
    assert 0.91 < covered / 300 < 0.985


def test_paired_correlations_equal_those_of_scipy():
    draw = np.random.default_rng(0)
    labels = draw.normal(size=ROWS)
    ours, theirs = labels + draw.normal(size=ROWS) / 2, labels + draw.normal(size=ROWS)
    result = paired_difference(PEARSON, labels, ours, theirs, resamples=2000)
    assert result.first == pytest.approx(stats.pearsonr(labels, ours).statistic)
    assert result.second == pytest.approx(stats.pearsonr(labels, theirs).statistic)
    assert 0 < result.low < result.value < result.high


def test_paired_difference_is_narrower_than_two_intervals_side_by_side():
    """Both models err on the same hard rows: scored on the same draws, the errors that they share cancel
    out."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 2000)
    before = np.where(generator.random(2000) < 0.2, 1 - labels, labels)
    now = before.copy()
    now[np.flatnonzero(before != labels)[:60]] = labels[np.flatnonzero(before != labels)[:60]]
    change = paired_difference(ACCURACY, labels, now, before)
    one, other = (metric_interval(ACCURACY, labels, predictions) for predictions in (now, before))
    assert change.value == pytest.approx(0.03)
    assert change.low > 0, "clearly better"
    assert other.high > one.low, "which the two intervals alone would not show"


def test_resamples_drawn_in_chunks_are_those_drawn_at_once(monkeypatch):
    labels, first, second = np.random.default_rng(0).normal(size=(3, 101))
    at_once = paired_difference(PEARSON, labels, first, second)
    monkeypatch.setattr("tuneline.judge.metrics.stats._VALUES_AT_A_TIME", 700)
    assert paired_difference(PEARSON, labels, first, second) == at_once
