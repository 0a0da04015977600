import numpy as np
import pytest
from scipy.stats import binom

from tuneline.core.settings import PromotionPolicy
from tuneline.judge.metrics.predictions import Predictions
from tuneline.model.tasks import Classification, Regression
from tuneline.operations.promotion.error_budget import ErrorBudget
from tuneline.operations.promotion.evidence import PairedPredictions
from tuneline.operations.promotion.gate import (
    decide_promotion,
    judge_candidate,
    validation_p_value,
)

NAMES = Classification(("billing", "parcel", "login", "other"))
POLICY = PromotionPolicy()


def model(labels: np.ndarray, skill: float, seed: int = 1) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(len(labels)) < skill, labels, (labels + 1) % 4)


def paired(labels, candidate, production, task, clusters=None) -> PairedPredictions:
    return PairedPredictions(Predictions(labels, candidate, task, clusters), production)


@pytest.fixture
def labels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 4, 1000)


@pytest.mark.parametrize("metric", [None, "accuracy", "f1"])
def test_better_model_is_promoted(labels, metric):
    decision = decide_promotion(
        paired(labels, model(labels, 0.9), model(labels, 0.8), NAMES),
        (),
        POLICY,
        deciding=metric,
    )
    assert decision.metric == (metric or "accuracy")
    assert decision.promoted
    assert decision.reason == "every criterion is met"


@pytest.mark.parametrize(("ours", "theirs"), [(0.8, 0.9), (0.9, 0.9)], ids=["worse", "as good"])
def test_model_that_is_not_better_is_rejected_with_the_reason(labels, ours, theirs):
    decision = decide_promotion(paired(labels, model(labels, ours), model(labels, theirs), NAMES), (), POLICY)
    assert not decision.promoted
    assert "accuracy over production" in decision.reason


def test_insignificant_gain_is_rejected(labels):
    ours, theirs = model(labels, 0.805, seed=1), model(labels, 0.8, seed=2)
    decision = decide_promotion(paired(labels, ours, theirs, NAMES), (), POLICY)
    assert not decision.promoted


def test_too_few_rows_decide_nothing():
    labels = np.arange(99) % 4
    decision = decide_promotion(paired(labels, labels, model(labels, 0.2), NAMES), (), POLICY)
    assert decision.reason == "rows of the reported split: 99, required >= 100"
    assert decide_promotion(
        paired(labels, labels, model(labels, 0.2), NAMES), (), PromotionPolicy(min_rows=99)
    ).promoted


def test_first_model_must_beat_the_majority_baseline(labels):
    assert decide_promotion(paired(labels, model(labels, 0.8), None, NAMES), (), POLICY).promoted
    decision = decide_promotion(paired(labels, model(labels, 0.28), None, NAMES), (), POLICY)
    assert not decision.promoted
    assert "accuracy over the majority" in decision.reason


def test_negative_min_gain_promotes_a_slightly_worse_model(labels):
    policy = PromotionPolicy(min_gain=-0.05)
    same = model(labels, 0.8)
    assert decide_promotion(paired(labels, same, same, NAMES), (), policy).promoted
    assert not decide_promotion(
        paired(labels, model(labels, 0.7), model(labels, 0.8), NAMES), (), policy
    ).promoted


def test_regression_is_compared_by_correlation():
    draw = np.random.default_rng(0)
    labels = draw.normal(size=500)
    good, bad = labels + draw.normal(size=500) / 4, labels + draw.normal(size=500)
    assert decide_promotion(paired(labels, good, bad, Regression()), (), POLICY).promoted
    assert not decide_promotion(paired(labels, bad, good, Regression()), (), POLICY).promoted
    assert decide_promotion(paired(labels, bad, None, Regression()), (), POLICY).promoted
    assert not decide_promotion(
        paired(labels, draw.normal(size=500), None, Regression()), (), POLICY
    ).promoted


def test_promotion_is_decided_by_the_metric_of_the_project_and_without_a_test_of_accuracy():
    """A model that finds 90 instead of 20 of 100 positives, at the price of 75 false ones."""
    labels = np.where(np.arange(2000) < 100, 1, 0)
    ours = np.where((np.arange(2000) < 90) | (np.arange(2000) >= 1925), 1, 0)
    theirs = np.where(np.arange(2000) < 20, 1, 0)
    predictions = paired(labels, ours, theirs, Classification(("no", "yes")))
    assert not decide_promotion(predictions, (), POLICY).promoted
    decision = decide_promotion(predictions, (), POLICY, deciding="matthews_correlation")
    assert (decision.metric, decision.promoted) == ("matthews_correlation", True)
    assert "McNemar" not in str(decision)


def test_copies_of_rows_count_once_in_the_gate():
    labels = np.tile([0, 1], 30)
    production = labels.copy()
    production[:10] ^= 1
    task = Classification(("no", "yes"))
    repeated = [np.repeat(column, 20) for column in (labels, labels, production)]
    alone = paired(*repeated, task)
    copies = paired(*repeated, task, np.repeat(np.arange(60), 20))
    as_rows = decide_promotion(alone, [], POLICY)
    as_texts = decide_promotion(copies, [], POLICY)
    assert as_texts.gain.high - as_texts.gain.low > 3 * (as_rows.gain.high - as_rows.gain.low)
    assert as_texts.criteria[2].value.startswith("p = 0.00098 "), "1 / 2**10"
    assert as_texts.criteria[0].name == "independent rows of the reported split"
    assert as_texts.criteria[0].value == "60"
    assert as_rows.criteria[0].value == "1,200"


def test_gain_that_was_significant_at_five_percent_is_not_enough_for_one_of_365_nights(labels):
    """60 rows that only one model predicts correctly: 42 to 18 is p = 0.001, 46 to 14 is p = 0.00002."""
    for wins, promoted in ((42, False), (46, True)):
        candidate, production = labels.copy(), labels.copy()
        production[:wins] = (production[:wins] + 1) % 4
        candidate[wins:60] = (candidate[wins:60] + 1) % 4
        decision = decide_promotion(paired(labels, candidate, production, NAMES), (), POLICY)
        assert decision.promoted == promoted
        weekly = decide_promotion(
            paired(labels, candidate, production, NAMES),
            (),
            PromotionPolicy(candidates_per_year=1),
        )
        assert weekly.promoted


def test_first_model_is_tested_at_the_confidence_of_the_policy(labels):
    """53 more rows than the majority: p = 0.011, far above the 0.05 / 365 of a night."""
    predictions = paired(labels, model(labels, 0.32), None, NAMES)
    decision = decide_promotion(predictions, (), POLICY)
    assert decision.criteria[2].value.startswith("p = 0.011 ")
    assert decision.promoted
    assert "error budget" not in {criterion.name for criterion in decision.criteria}


def test_f1_is_decided_by_an_interval_at_the_level_of_the_night(labels):
    predictions = paired(labels, model(labels, 0.83, seed=1), model(labels, 0.78, seed=2), NAMES)
    decision = decide_promotion(predictions, (), POLICY, deciding="f1")
    usual = decide_promotion(predictions, (), PromotionPolicy(candidates_per_year=1), deciding="f1")
    assert decision.gain.low < usual.gain.low
    assert "99.9781% interval" in decision.criteria[1].limit
    # a candidate that fails the usual interval needs no wider one
    production = predictions.production
    same = paired(labels, production, production, NAMES)
    assert "95% interval" in decide_promotion(same, (), POLICY, deciding="f1").criteria[1].limit


def test_validation_sets_the_level_of_a_candidate(labels):
    """42 of 60 rows, p = 0.001: enough where validation favours the candidate, and not where it does not."""
    candidate, production = labels.copy(), labels.copy()
    production[:42] = (production[:42] + 1) % 4
    candidate[42:60] = (candidate[42:60] + 1) % 4
    predictions = paired(labels, candidate, production, NAMES)
    for p_value, promoted in ((None, False), (0.5, False), (0.002, True)):
        budget = ErrorBudget.of_year((), "a", 0, POLICY, p_value)
        decision = decide_promotion(predictions, (), POLICY, budget=budget)
        assert decision.promoted == promoted
    assert "error budget: 0.008 for this candidate, by p = 0.002" in str(decision).replace("0.0080", "0.008")


def test_p_value_on_validation_is_exact_where_accuracy_decides(labels):
    candidate, production = labels.copy(), labels.copy()
    production[:20] = (production[:20] + 1) % 4
    candidate[20:30] = (candidate[20:30] + 1) % 4
    better = paired(labels, candidate, production, NAMES)
    worse = paired(labels, production, candidate, NAMES)
    assert validation_p_value(better, POLICY) == pytest.approx(binom.sf(19, 30, 0.5))
    assert validation_p_value(worse, POLICY) > 0.9
    # ten copies of a text are one row
    clusters = np.maximum(np.arange(len(labels)) - 9, 0)
    copies = paired(labels, candidate, production, NAMES, clusters)
    assert validation_p_value(copies, POLICY) > 2 * validation_p_value(better, POLICY)


@pytest.mark.parametrize("metric", ["f1", "accuracy"])
def test_p_value_on_validation_is_about_the_same_by_an_interval(labels, metric):
    """Also the one that ``min_gain`` is about."""
    predictions = paired(labels, model(labels, 0.83, seed=1), model(labels, 0.80, seed=2), NAMES)
    exact = validation_p_value(predictions, POLICY)
    policy = PromotionPolicy(min_gain=-1e-9 if metric == "accuracy" else 0.0)
    assert validation_p_value(predictions, policy, metric) == pytest.approx(exact, rel=0.3)
    tolerant = PromotionPolicy(min_gain=-0.05)
    assert validation_p_value(predictions, tolerant, metric) < exact / 10


def test_p_value_on_validation_of_regressions_and_of_equal_models():
    draw = np.random.default_rng(0)
    labels = draw.normal(size=500)
    good, bad = labels + draw.normal(size=500) / 2, labels + draw.normal(size=500)
    assert validation_p_value(paired(labels, good, bad, Regression()), POLICY) < 0.001
    assert validation_p_value(paired(labels, bad, good, Regression()), POLICY) > 0.999
    assert validation_p_value(paired(labels, bad, bad, Regression()), POLICY) == 1.0
    tolerant = PromotionPolicy(min_gain=-0.1)
    assert validation_p_value(paired(labels, bad, bad, Regression()), tolerant) == 0.0
    assert validation_p_value(paired(labels, bad, None, Regression()), POLICY) is None
    assert validation_p_value(None, POLICY) is None


def test_each_candidate_uses_up_its_part_and_the_history_says_so(toy, registry, pipeline, make):
    make()
    registry.promote(toy.resolve("HEAD"), "It is good.")
    make("task=weak")
    policy = PromotionPolicy(min_rows=1, candidates_per_year=10, error_rate=0.125)
    first = judge_candidate(pipeline, registry, policy)
    # validation says that it is worse: a quarter of a tenth of the year
    assert first.entry.validation_p == pytest.approx(1)
    assert first.entry.level == pytest.approx(0.0025)
    assert first.entry.production == "v0.1.0"
    assert first.entry.outcome == "rejected"
    registry.remember(first.entry)

    # the same candidate once more: the same test
    again = judge_candidate(pipeline, registry, policy)
    assert again.entry.level == 0
    assert "as the first time" in str(again)

    # one that is better on validation may use up a fifth of what is left
    make("task=strong")
    strong = judge_candidate(pipeline, registry, policy)
    assert strong.entry.validation_p < 0.001
    assert strong.entry.level == pytest.approx(0.0975 / 5)
    assert strong.promoted

    # the year is used up, also for a much better one, and also on other rows
    used_up = {"candidate": "another", "rows_hash": "b", "level": 0.095}
    registry.remember(first.entry.model_copy(update=used_up))
    late = judge_candidate(pipeline, registry, policy)
    assert not late.promoted
    assert late.entry.level == 0
    assert "error budget: 0 for this candidate" in late.reason
