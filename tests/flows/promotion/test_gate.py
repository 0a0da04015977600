from dataclasses import replace

import numpy as np
import pytest

from flows.promotion.gate import Measurements, Predictions, decide
from flows.settings import PromotionPolicy

NAMES = ("billing", "parcel", "login", "other")
GOOD = Measurements(agreement=1.0, max_abs_diff=1e-6, checks_passed=True, megabytes=10.0, latency_ms=5.0)
POLICY = PromotionPolicy()


def model(labels: np.ndarray, skill: float, seed: int = 1) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(len(labels)) < skill, labels, (labels + 1) % 4)


@pytest.fixture
def labels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 4, 1000)


@pytest.mark.parametrize("metric", [None, "accuracy", "f1"])
def test_a_better_model_is_promoted(labels, metric):
    decision = decide(Predictions(labels, model(labels, 0.9), model(labels, 0.8), NAMES), GOOD, PromotionPolicy(metric=metric))
    assert decision.metric == (metric or "accuracy")
    assert decision.promoted
    assert decision.reason == "every criterion is met"


@pytest.mark.parametrize(("ours", "theirs"), [(0.8, 0.9), (0.9, 0.9)], ids=["worse", "as good"])
def test_a_model_that_is_not_better_is_rejected_and_the_figures_say_why(labels, ours, theirs):
    decision = decide(Predictions(labels, model(labels, ours), model(labels, theirs), NAMES), GOOD, POLICY)
    assert not decision.promoted
    assert "accuracy over production" in decision.reason


def test_a_gain_that_chance_explains_is_no_gain(labels):
    ours, theirs = model(labels, 0.805, seed=1), model(labels, 0.8, seed=2)
    decision = decide(Predictions(labels, ours, theirs, NAMES), GOOD, POLICY)
    assert not decision.promoted


def test_a_first_model_must_beat_the_majority_with_confidence(labels):
    assert decide(Predictions(labels, model(labels, 0.8), None, NAMES), GOOD, POLICY).promoted
    decision = decide(Predictions(labels, model(labels, 0.28), None, NAMES), GOOD, POLICY)
    assert not decision.promoted
    assert "accuracy over the majority" in decision.reason


def test_a_first_model_on_skewed_labels_does_not_win_by_saying_the_majority():
    labels = np.where(np.arange(1000) < 900, 0, 1)
    assert not decide(Predictions(labels, np.zeros_like(labels), None, ("no", "yes")), GOOD, POLICY).promoted


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"agreement": 0.9}, "agreement of model.onnx"),
        ({"max_abs_diff": 0.1}, "logit difference"),
        ({"checks_passed": False}, "data checks: failed"),
        ({"megabytes": 5000.0}, "size"),
        ({"latency_ms": 900.0}, "latency"),
        ({"latency_ms": float("nan")}, "latency"),
    ],
)
def test_a_better_model_outside_a_limit_is_rejected(labels, change, said):
    decision = decide(Predictions(labels, model(labels, 0.9), model(labels, 0.8), NAMES), replace(GOOD, **change), POLICY)
    assert not decision.promoted
    assert said in decision.reason


@pytest.mark.parametrize("figure", ["agreement", "max_abs_diff", "checks_passed", "megabytes", "latency_ms"])
def test_what_is_not_known_is_not_met(labels, figure):
    decision = decide(Predictions(labels, model(labels, 0.9), None, NAMES), replace(GOOD, **{figure: None}), POLICY)
    assert not decision.promoted
    assert "unknown" in decision.reason


def test_a_policy_may_let_a_model_follow_that_is_hardly_worse(labels):
    policy = PromotionPolicy(min_gain=-0.05)
    same = model(labels, 0.8)
    assert decide(Predictions(labels, same, same, NAMES), GOOD, policy).promoted
    assert not decide(Predictions(labels, model(labels, 0.7), model(labels, 0.8), NAMES), GOOD, policy).promoted


def test_a_regression_is_judged_by_its_correlation():
    draw = np.random.default_rng(0)
    labels = draw.normal(size=500)
    good, bad = labels + draw.normal(size=500) / 4, labels + draw.normal(size=500)
    assert decide(Predictions(labels, good, bad, None), GOOD, POLICY).promoted
    assert not decide(Predictions(labels, bad, good, None), GOOD, POLICY).promoted
    assert decide(Predictions(labels, bad, None, None), GOOD, POLICY).promoted
    assert not decide(Predictions(labels, draw.normal(size=500), None, None), GOOD, POLICY).promoted


@pytest.mark.parametrize(("metric", "names"), [("pearson", NAMES), ("accuracy", None)])
def test_a_metric_of_the_other_task_is_a_mistake_in_the_settings(labels, metric, names):
    with pytest.raises(ValueError, match=r"promotion\.metric"):
        decide(Predictions(labels, labels, None, names), GOOD, PromotionPolicy(metric=metric))
