import json

import pytest

from tests.tuneline.page.verdict.runs import (
    AUTO,
    BASE,
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
    against,
    judged,
)
from tuneline.page.verdict.facts import RunFacts
from tuneline.page.verdict.rules import judge_errors, judge_run


def test_model_without_a_fault_is_good_and_compared_with_words():
    (finding,) = judge_run(RunFacts(BEATEN | against("frozen", 0.85, 0.02, 0.08), params=FINE_TUNED))
    assert (finding.code, finding.severity, finding.advice) == ("good", "good", "")
    assert "clearly above TF-IDF (0.800" in finding.sentence
    assert "95 % interval 0.880 to 0.920" in finding.sentence


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
    assert "300 rows" in findings["one_prediction"].sentence
    assert findings["one_prediction"].advice.startswith("Train longer")
    assert findings.keys().isdisjoint({"good", "never_predicted", "not_above_majority"})


@pytest.mark.parametrize("weights", [None, "balanced"])
def test_class_that_is_never_predicted_is_a_warning(weights):
    evaluated = BEATEN | {"never_predicted_classes": 2, "predicted_classes": 3, "most_predicted_share": 0.6}
    finding = judged(evaluated, SCRATCH | {"train.class_weights": weights})["never_predicted"]
    assert finding.severity == "warning"
    assert finding.sentence.startswith("2 of 5 classes are never predicted; 60% of the rows")
    assert ("train.class_weights=balanced" in finding.advice) == (weights is None)


def test_model_that_gives_no_label_at_all_is_told_of_thresholds_above_all_probabilities():
    silent = SETS | {"most_predicted_share": 1.0, "predicted_classes": 0, "never_predicted_classes": 5}
    finding = judged(silent | {"macro_f1": 0.0})["one_prediction"]
    assert finding.advice.startswith("First lower the thresholds")


def test_labels_that_are_never_given_are_a_warning_although_rows_differ():
    evaluated = SETS | {"predicted_classes": 1, "never_predicted_classes": 4, "most_predicted_share": 0.8}
    findings = judged(evaluated)
    assert "lower the thresholds" in findings["never_predicted"].advice
    assert "one_prediction" not in findings


def test_model_that_is_not_clearly_above_the_majority_is_told_so_whatever_tfidf_reaches():
    evaluated = BEATEN | {"accuracy_over_majority_low": -0.01, "accuracy_over_majority_high": 0.05}
    code, *_ = judged(evaluated)
    assert code == "not_above_majority"
    worse = BEATEN | {"accuracy_over_majority_low": -0.05, "accuracy_over_majority_high": -0.01}
    assert "is worse than" in judged(worse)["not_above_majority"].sentence


FROZEN_WINS = BEATEN | against("frozen", 0.93, -0.04, -0.02)
WORDS_WIN = BEATEN | against("tfidf", 0.93, -0.04, -0.02)


@pytest.mark.parametrize("words", [BEATEN, BEATEN | against("cosine", 0.89, -0.01, 0.02), WORDS_WIN])
@pytest.mark.parametrize("frozen", [(0.85, 0.02, 0.08), (0.89, -0.02, 0.04), (0.93, -0.04, -0.02)])
def test_same_evidence_against_words_gets_the_same_colour_whatever_the_frozen_checkpoint_reaches(
    words, frozen
):
    tuned, *_ = judge_run(RunFacts(words | against("frozen", *frozen), params=FINE_TUNED))
    published, *_ = judge_run(RunFacts(words | ITSELF, params=FROZEN))
    assert (tuned.code, tuned.severity) == (published.code, published.severity)


@pytest.mark.parametrize(("evaluated", "severity"), [(UNCLEAR, "note"), (FROZEN_WINS, "warning")])
def test_frozen_checkpoint_that_is_as_good_or_wins_is_named_with_its_interval(evaluated, severity):
    good, finding, *_ = judge_run(RunFacts(evaluated, params=FINE_TUNED))
    assert good.code == "good"
    assert (finding.code, finding.severity) == ("not_above_frozen", severity)
    low, high = evaluated["accuracy_over_frozen_low"], evaluated["accuracy_over_frozen_high"]
    assert f"the difference {low:+.3f} to {high:+.3f}" in finding.sentence
    assert "model.head=frozen" in finding.advice


@pytest.mark.parametrize(("params", "pretrained"), [(SCRATCH, True), (FINE_TUNED, False)])
@pytest.mark.parametrize("evaluated", [WORDS_WIN, BEATEN | against("tfidf", 0.91, -0.03, 0.01)])
def test_advice_to_fine_tune_is_only_for_those_who_did_not(evaluated, params, pretrained):
    first, *_ = judge_run(RunFacts(evaluated, params=params))
    assert ("Fine-tune a pretrained checkpoint" in first.advice) == pretrained


@pytest.mark.parametrize("evaluated", [WORDS_WIN, BASE | {"accuracy_over_majority_low": -0.1}])
@pytest.mark.parametrize(("status", "is_said"), [("failed", True), ("passed", False)])
def test_tokenizer_of_another_language_asks_for_a_checkpoint_and_not_for_rows(
    tmp_path, evaluated, status, is_said
):
    entry = {"check": "word_pieces", "status": status, "found": "3.1 pieces per word"}
    (tmp_path / "reports/checks").mkdir(parents=True)
    (tmp_path / "reports/checks/checks.json").write_text(json.dumps({"checks": [entry]}))
    run = RunFacts(evaluated, params=FINE_TUNED, word_pieces=RunFacts.read(tmp_path, {}).word_pieces)
    said = " ".join(map(str, judge_run(run)))
    assert ("3.1 pieces per word" in said) == is_said
    if is_said:
        assert "checkpoint for the language" in said
        assert "more data" not in said


@pytest.mark.parametrize(
    ("params", "longer"),
    [
        ({"train.epochs": 3}, "train.epochs=6"),
        ({"train.epochs": None, "train.max_steps": 300}, "train.max_steps=600"),
    ],
)
def test_validation_that_still_improves_at_the_last_step_means_train_longer(params, longer):
    finding = judged(BEATEN, SCRATCH | params, validation=IMPROVING)["still_improving"]
    assert "accuracy 0.800 to 0.850" in finding.sentence
    assert "since step 200" in finding.sentence
    assert finding.advice == f"Train longer: {longer}."


def test_metric_of_the_user_does_not_say_which_values_are_better_so_the_loss_does():
    curve = {"step": (100, 200, 300), "loss": (0.6, 0.5, 0.4), "cost": (1.0, 1.5, 2.0)}
    finding = judged(BEATEN, FINE_TUNED, validation=curve)["still_improving"]
    assert "at the last step: loss 0.500 to 0.400 since step 200." in finding.sentence
    assert "still_improving" not in judged(BEATEN, FINE_TUNED, validation=curve | {"loss": (0.6, 0.4, 0.5)})


BY_STEPS = FINE_TUNED | {"train.max_steps": 300, "train.epochs": None, "train.keep": "last"}


@pytest.mark.parametrize(
    ("params", "severity", "advice"),
    [(FINE_TUNED, "note", "were kept"), (BY_STEPS, "warning", "train.keep=best")],
)
def test_overfitting_is_as_bad_as_the_weights_that_were_kept(params, severity, advice):
    finding = judged(BEATEN, params, validation=OVERFIT, losses=FALLING)["overfitting"]
    assert finding.severity == severity
    assert advice in finding.advice
    assert "since step 100: the validation loss rises from 0.500 to 0.800" in finding.sentence


def test_overfitting_asks_for_nothing_where_an_average_with_the_linear_start_is_published():
    average = {"head_is_frozen": 0, "head_tuned_share": 0.25}
    finding = judged(BEATEN, BY_STEPS, training=average, validation=OVERFIT, losses=FALLING)["overfitting"]
    assert finding.severity == "note"
    assert "nearer to the linear start" in finding.advice


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        ((0.7, 0.6, 0.5, 0.5, 0.7, 0.8, 0.9, 1.1), "0.650 at first, 1.000 at the end"),
        ((0.69, 0.7) * 4, "0.695 at first, 0.695 at the end"),
    ],
)
def test_training_loss_that_does_not_fall_means_a_lower_learning_rate(loss, words):
    losses = {"step": FALLING["step"], "loss": loss}
    finding = judged(BEATEN, losses=losses)["loss_does_not_fall"]
    assert words in finding.sentence
    assert finding.advice == "Lower train.learning_rate."


@pytest.mark.parametrize(
    ("confidences", "errors", "words"),
    [
        ([0.99] * 95 + [0.95] * 5, [0.95] * 5, "often wrong labels"),
        ([0.899] * 9, [0.899], "highest confidence is 89%"),
        ([0.99] * 100, [0.95] * 40, "too sure of itself"),
    ],
)
def test_most_confident_errors_are_wrong_labels_only_where_the_model_is_sure_and_right(
    confidences, errors, words
):
    assert words in judge_errors(confidences, errors)


def test_frozen_head_is_not_judged_against_itself_but_against_the_cosine():
    findings = judged(BEATEN | ITSELF, FROZEN)
    assert list(findings) == ["good"]
    assert "clearly above TF-IDF" in findings["good"].sentence
    unclear = BEATEN | ITSELF | against("cosine", 0.89, -0.01, 0.02)
    found = judged(unclear, FROZEN)["not_above_simple_model"]
    assert found.advice.endswith("Or use the cosine of frozen vectors alone.")


BOTH = {"head_is_frozen": 1, "frozen_calibrated_loss": 0.5, "tuned_calibrated_loss": 0.6}
TUNED_CHOSEN = {"head_is_frozen": 0, "frozen_calibrated_loss": 0.6, "tuned_calibrated_loss": 0.5}


@pytest.mark.parametrize(
    ("training", "chosen", "reason"),
    [
        (BOTH, "the linear one", "0.600 with the fine-tuned one."),
        (TUNED_CHOSEN, "the fine-tuned one", "0.500 with the fine-tuned one."),
        (
            TUNED_CHOSEN | {"tuned_calibrated_loss": 0.7, "head_by_metric": 1},
            "the fine-tuned one",
            "metric is clearly better",
        ),
    ],
)
def test_head_that_validation_chose_is_a_note_with_both_losses_and_the_reason(training, chosen, reason):
    finding = judged(BEATEN, AUTO, training=training)["chosen_head"]
    assert finding.severity == "note"
    assert finding.sentence.startswith(f"Validation has chosen {chosen}: loss")
    assert reason in finding.sentence
    both = training | {"frozen_accuracy": 0.61, "tuned_accuracy": 0.556}
    assert "0.610 and 0.556" in judged(BEATEN, AUTO, training=both)["chosen_head"].sentence


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
    assert "Matthews correlation 0.861" in finding.sentence
    assert "TF-IDF (0.612" in finding.sentence
