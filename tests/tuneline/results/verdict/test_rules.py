import pytest

from tests.tuneline.results.verdict.runs import (
    AUTO,
    BEATEN,
    FALLING,
    FINE_TUNED,
    FROZEN,
    IMPROVING,
    ITSELF,
    OVERFIT,
    SCRATCH,
    SETS,
    UNCLEAR,
    advised,
    against,
    judged,
    with_thresholds,
)
from tuneline.results.verdict.facts import RunFacts
from tuneline.results.verdict.rules import judge_errors, judge_run


def test_model_without_a_fault_is_good_and_compared_with_the_best_simple_model():
    (finding,) = judge_run(RunFacts(BEATEN | against("frozen", 0.85, 0.02, 0.08), params=FINE_TUNED))
    assert (finding.code, finding.severity, finding.advice) == ("good", "good", ())
    assert finding.numbers["best"].name == "frozen"
    assert finding.numbers["compared"] == 3
    assert (finding.numbers["low"], finding.numbers["high"]) == (0.88, 0.92)


def test_collapsed_model_is_not_praised_although_it_beats_tfidf():
    """PAWS, 300 rows: all positives are predicted 0, TF-IDF is worse than that."""
    collapsed = {
        "rows": 300,
        "accuracy": 0.573,
        "accuracy_low": 0.52,
        "accuracy_high": 0.63,
        "majority_accuracy": 0.573,
        "accuracy_over_majority_low": 0.0,
        "accuracy_over_majority_high": 0.0,
        "predicted_classes": 1,
        "never_predicted_classes": 1,
        "most_predicted_share": 1.0,
        **against("tfidf", 0.513, 0.01, 0.11),
    }
    findings = judged(collapsed, FINE_TUNED)
    assert next(iter(findings)) == "one_prediction"
    assert findings["one_prediction"].numbers["rows"] == 300
    assert findings["one_prediction"].advice == ("longer_or_lower_rate",)
    assert findings.keys().isdisjoint({"good", "never_predicted", "not_above_majority"})


@pytest.mark.parametrize(("weights", "remedy"), [(None, "weights"), ("balanced", None)])
def test_class_that_is_never_predicted_is_a_warning(weights, remedy):
    evaluated = BEATEN | {"never_predicted_classes": 2, "predicted_classes": 3, "most_predicted_share": 0.6}
    finding = judged(evaluated, SCRATCH | {"train.class_weights": weights})["never_predicted"]
    assert finding.severity == "warning"
    assert (finding.numbers["never"], finding.numbers["classes"], finding.numbers["share"]) == (2, 5, 0.6)
    assert finding.numbers["remedy"] == remedy


@pytest.mark.parametrize(
    ("params", "advice", "remedy"),
    [
        (with_thresholds("half"), "first_thresholds", "choose_thresholds"),
        (with_thresholds("precision", 0.95), "first_thresholds", "less_precision"),
        (with_thresholds("f1"), "longer_or_lower_rate", None),
    ],
)
def test_model_that_gives_no_label_at_all_is_told_of_thresholds_above_all_probabilities(
    params, advice, remedy
):
    silent = SETS | {"most_predicted_share": 1.0, "predicted_classes": 0, "never_predicted_classes": 5}
    finding = judged(silent | {"macro_f1": 0.0}, params)["one_prediction"]
    assert finding.advice == (advice,)
    assert finding.numbers["remedy"] == remedy


@pytest.mark.parametrize(
    ("params", "remedy"),
    [
        (with_thresholds("f1"), "weights"),
        (with_thresholds("f1") | {"train.class_weights": "balanced"}, None),
        (with_thresholds("half"), "choose_thresholds"),
        (with_thresholds("precision", 0.9), "less_precision"),
    ],
)
def test_labels_that_are_never_given_are_a_warning_although_rows_differ(params, remedy):
    evaluated = SETS | {"predicted_classes": 1, "never_predicted_classes": 4, "most_predicted_share": 0.8}
    findings = judged(evaluated, params)
    assert findings["never_predicted"].numbers["remedy"] == remedy
    assert "one_prediction" not in findings


def test_model_that_is_not_clearly_above_the_majority_is_told_so_whatever_tfidf_reaches():
    evaluated = BEATEN | {"accuracy_over_majority_low": -0.01, "accuracy_over_majority_high": 0.05}
    code, *_ = judged(evaluated)
    assert code == "not_above_majority"
    worse = BEATEN | {"accuracy_over_majority_low": -0.05, "accuracy_over_majority_high": -0.01}
    assert next(iter(judged(worse))) == "worse_than_majority"


FROZEN_WINS = BEATEN | against("frozen", 0.93, -0.04, -0.02)


def test_frozen_checkpoint_that_wins_is_named_with_its_interval():
    finding = judged(FROZEN_WINS, FINE_TUNED)["worse_than_simple_model"]
    best = finding.numbers["best"]
    assert (best.name, best.simple, best.low, best.high) == ("frozen", 0.93, -0.04, -0.02)
    assert finding.advice == ("use_simple_model",)


TO_TUNE = {"tune_or_use_simpler", "use_simple_model_or_tune", "tune_a_checkpoint"}
"""Advice to fine-tune a pretrained checkpoint."""


@pytest.mark.parametrize(("params", "pretrained"), [(SCRATCH, True), (FINE_TUNED, False)])
@pytest.mark.parametrize("evaluated", [FROZEN_WINS, UNCLEAR, BEATEN | against("tfidf", 0.91, -0.03, 0.01)])
def test_advice_to_fine_tune_is_only_for_those_who_did_not(evaluated, params, pretrained):
    assert bool(advised(evaluated, params) & TO_TUNE) == pretrained


def test_unclear_comparison_on_few_rows_says_how_many_would_tell():
    finding = judged(UNCLEAR, FINE_TUNED)["few_rows"]
    assert finding.numbers["half_width"] == pytest.approx(0.03)
    assert finding.advice == ("rows_needed",)
    assert finding.numbers["needed"] == 9000, "three times as narrow"
    assert "few_rows" not in judged(UNCLEAR | {"rows": 20_000}, FINE_TUNED)
    clear = UNCLEAR | against("cosine", 0.95, -0.06, -0.04)
    assert "few_rows" not in judged(clear, FINE_TUNED)


@pytest.mark.parametrize(
    ("params", "longer"),
    [
        ({"train.epochs": 3}, "train.epochs=6"),
        ({"train.epochs": None, "train.max_steps": 300}, "train.max_steps=600"),
    ],
)
def test_validation_that_still_improves_at_the_last_step_means_train_longer(params, longer):
    finding = judged(BEATEN, SCRATCH | params, validation=IMPROVING)["still_improving"]
    numbers = finding.numbers
    assert (numbers["before"], numbers["value"], numbers["step"]) == (0.8, 0.85, 200)
    assert numbers["longer"] == longer
    assert finding.advice == ("train_longer",)


BY_STEPS = FINE_TUNED | {"train.max_steps": 300, "train.epochs": None, "train.keep": "last"}
WORSE_AT_LAST = OVERFIT | {"accuracy": (0.8, 0.8, 0.7)}


@pytest.mark.parametrize(
    ("params", "curve", "best_step", "severity", "advice"),
    [
        (FINE_TUNED, OVERFIT, 100, "note", ("earlier_weights_kept", "fewer_epochs")),
        (FINE_TUNED, OVERFIT, 300, "warning", ("later_weights_kept",)),
        (BY_STEPS, WORSE_AT_LAST, 100, "warning", ("keep_best",)),
        (BY_STEPS, OVERFIT, 100, "note", ("distrust_confidence",)),
    ],
)
def test_overfitting_is_as_bad_as_the_weights_that_were_kept(params, curve, best_step, severity, advice):
    training = {"steps": 300, "best_step": best_step}
    finding = judged(BEATEN, params, validation=curve, losses=FALLING, training=training)["overfitting"]
    assert (finding.severity, finding.advice) == (severity, advice)
    assert (finding.numbers["lowest"], finding.numbers["last"]) == (0.5, 0.8)
    assert (finding.numbers["step"], finding.numbers["epoch"]) == (100, 1 if params is FINE_TUNED else None)


@pytest.mark.parametrize(
    ("loss", "code", "numbers"),
    [
        ((0.7, 0.6, 0.5, 0.5, 0.7, 0.8, 0.9, 1.1), "loss_rises", {"lowest": 0.5, "last": 1.0}),
        ((0.69, 0.7) * 4, "loss_does_not_fall", {"first": 0.695, "last": 0.695}),
        ((0.7, 0.6, float("nan"), 0.5), "loss_not_finite", {"step": 30}),
    ],
)
def test_training_loss_that_does_not_fall_means_a_lower_learning_rate(loss, code, numbers):
    losses = {"step": FALLING["step"][: len(loss)], "loss": loss}
    finding = judged(BEATEN, losses=losses)[code]
    assert {name: finding.numbers[name] for name in numbers} == pytest.approx(numbers)
    assert finding.advice == ("lower_the_rate",)
    assert finding.numbers["lower"] == pytest.approx(1e-4 / 3)


@pytest.mark.parametrize(
    ("confidences", "errors", "code"),
    [
        ([0.99] * 95 + [0.95] * 5, [0.95] * 5, "errors_are_wrong_labels"),
        ([0.899] * 9, [0.899], "errors_unsure"),
        ([0.99] * 100, [0.95] * 40, "errors_too_sure"),
    ],
)
def test_most_confident_errors_are_wrong_labels_only_where_the_model_is_sure_and_right(
    confidences, errors, code
):
    finding = judge_errors(confidences, errors)
    assert finding is not None
    assert finding.code == code


def test_frozen_head_is_not_judged_against_itself_but_against_the_cosine():
    findings = judged(BEATEN | ITSELF, FROZEN)
    assert list(findings) == ["good"]
    assert findings["good"].numbers["best"].name == "tfidf"
    unclear = BEATEN | ITSELF | against("cosine", 0.89, -0.01, 0.02)
    assert "not_above_simple_model" in judged(unclear, FROZEN)
    assert list(judged(BEATEN | ITSELF, FINE_TUNED)) == ["not_above_simple_model"]


BOTH = {"head_is_frozen": 1, "frozen_calibrated_loss": 0.5, "tuned_calibrated_loss": 0.6}
TUNED_CHOSEN = {"head_is_frozen": 0, "frozen_calibrated_loss": 0.6, "tuned_calibrated_loss": 0.5}


@pytest.mark.parametrize(
    ("training", "code"),
    [
        (BOTH, "chosen_by_loss"),
        (TUNED_CHOSEN, "chosen_by_loss"),
        (TUNED_CHOSEN | {"tuned_calibrated_loss": 0.7}, "chosen_by_default"),
        (TUNED_CHOSEN | {"tuned_calibrated_loss": 0.7, "head_by_metric": 1}, "chosen_by_metric"),
    ],
)
def test_head_that_validation_chose_is_a_note_with_both_losses_and_the_reason(training, code):
    finding = judged(BEATEN, AUTO, training=training)[code]
    assert finding.severity == "note"
    assert finding.numbers["is_frozen"] == bool(training["head_is_frozen"])
    assert finding.numbers["frozen"] == training["frozen_calibrated_loss"]


RARE = {
    "rows": 1000,
    "accuracy": 0.987,
    "f1": 0.867,
    "matthews_correlation": 0.861,
    "matthews_correlation_low": 0.78,
    "matthews_correlation_high": 0.92,
    "majority_accuracy": 0.95,
    "tfidf_accuracy": 0.971,
    "tfidf_matthews_correlation": 0.612,
    "matthews_correlation_over_tfidf_low": 0.14,
    "matthews_correlation_over_tfidf_high": 0.37,
    "most_predicted_share": 0.95,
}
"""5 % of one class: accuracy does not tell the model from TF-IDF, Matthews correlation does."""


@pytest.mark.parametrize("params", [FINE_TUNED])
def test_verdict_is_by_the_metric_that_decides(params):
    """Without the parameter, ``metrics/evaluate.json`` says which metric has an interval."""
    (finding,) = judge_run(RunFacts(RARE, params=params))
    assert finding.code == "good"
    assert finding.numbers["metric"].name == "matthews_correlation"
    assert (finding.numbers["best"].name, finding.numbers["best"].simple) == ("tfidf", 0.612)
