from dataclasses import fields, replace

import numpy as np
import pytest

from flows.promotion.gate import Predictions, decide, mcnemar, promotion_metric
from flows.settings.promotion import PromotionPolicy
from tests.flows.promotion.measurements import GOOD

NAMES = ("billing", "parcel", "login", "other")
POLICY = PromotionPolicy()


def model(labels: np.ndarray, skill: float, seed: int = 1) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(len(labels)) < skill, labels, (labels + 1) % 4)


@pytest.fixture
def labels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 4, 1000)


@pytest.mark.parametrize("metric", [None, "accuracy", "f1"])
def test_better_model_is_promoted(labels, metric):
    decision = decide(Predictions(labels, model(labels, 0.9), model(labels, 0.8), NAMES), GOOD, PromotionPolicy(metric=metric))
    assert decision.metric == (metric or "accuracy")
    assert decision.promoted
    assert decision.reason == "every criterion is met"


@pytest.mark.parametrize(("ours", "theirs"), [(0.8, 0.9), (0.9, 0.9)], ids=["worse", "as good"])
def test_model_that_is_not_better_is_rejected_with_the_reason(labels, ours, theirs):
    decision = decide(Predictions(labels, model(labels, ours), model(labels, theirs), NAMES), GOOD, POLICY)
    assert not decision.promoted
    assert "accuracy over production" in decision.reason


def test_insignificant_gain_is_rejected(labels):
    ours, theirs = model(labels, 0.805, seed=1), model(labels, 0.8, seed=2)
    decision = decide(Predictions(labels, ours, theirs, NAMES), GOOD, POLICY)
    assert not decision.promoted


def test_too_few_rows_decide_nothing():
    labels = np.arange(99) % 4
    decision = decide(Predictions(labels, labels, model(labels, 0.2), NAMES), GOOD, POLICY)
    assert decision.reason == "rows of the reported split: 99, required >= 100"
    assert decide(Predictions(labels, labels, model(labels, 0.2), NAMES), GOOD, PromotionPolicy(min_rows=99)).promoted


def test_first_model_must_beat_the_majority_baseline(labels):
    assert decide(Predictions(labels, model(labels, 0.8), None, NAMES), GOOD, POLICY).promoted
    decision = decide(Predictions(labels, model(labels, 0.28), None, NAMES), GOOD, POLICY)
    assert not decision.promoted
    assert "accuracy over the majority" in decision.reason


def test_first_model_that_predicts_the_majority_is_rejected():
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
def test_better_model_outside_a_limit_is_rejected(labels, change, said):
    decision = decide(Predictions(labels, model(labels, 0.9), model(labels, 0.8), NAMES), replace(GOOD, **change), POLICY)
    assert not decision.promoted
    assert said in decision.reason


@pytest.mark.parametrize("figure", [field.name for field in fields(GOOD)])
def test_missing_measurement_is_rejected(labels, figure):
    decision = decide(Predictions(labels, model(labels, 0.9), None, NAMES), replace(GOOD, **{figure: None}), POLICY)
    assert not decision.promoted
    assert "unknown" in decision.reason


def test_negative_min_gain_promotes_a_slightly_worse_model(labels):
    policy = PromotionPolicy(min_gain=-0.05)
    same = model(labels, 0.8)
    assert decide(Predictions(labels, same, same, NAMES), GOOD, policy).promoted
    assert not decide(Predictions(labels, model(labels, 0.7), model(labels, 0.8), NAMES), GOOD, policy).promoted


def test_regression_is_compared_by_correlation():
    draw = np.random.default_rng(0)
    labels = draw.normal(size=500)
    good, bad = labels + draw.normal(size=500) / 4, labels + draw.normal(size=500)
    assert decide(Predictions(labels, good, bad, None), GOOD, POLICY).promoted
    assert not decide(Predictions(labels, bad, good, None), GOOD, POLICY).promoted
    assert decide(Predictions(labels, bad, None, None), GOOD, POLICY).promoted
    assert not decide(Predictions(labels, draw.normal(size=500), None, None), GOOD, POLICY).promoted


@pytest.mark.parametrize(("metric", "names"), [("pearson", NAMES), ("accuracy", None)])
def test_metric_of_the_other_kind_of_task_is_an_error(labels, metric, names):
    with pytest.raises(ValueError, match=r"promotion\.metric"):
        decide(Predictions(labels, labels, None, names), GOOD, PromotionPolicy(metric=metric))


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


def test_majority_baseline_predicts_the_most_frequent_label():
    labels = np.array([2, 0, 2, 1])
    assert decide(Predictions(labels, labels, None, NAMES), GOOD, POLICY).gain.second == 0.5
