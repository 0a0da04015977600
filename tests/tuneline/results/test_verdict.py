import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.tuneline.finished_project import FinishedProject
from tuneline.cli import app
from tuneline.project.dvc import read_lock
from tuneline.results.verdict import RunFacts, about_errors, judge_run, next_steps

BASE = {
    "rows": 1000,
    "accuracy": 0.9,
    "accuracy_low": 0.88,
    "accuracy_high": 0.92,
    "majority_accuracy": 0.3,
    "predicted_classes": 4,
}
BASE |= {
    "accuracy_over_majority_low": 0.55,
    "accuracy_over_majority_high": 0.65,
    "never_predicted_classes": 0,
    "most_predicted_share": 0.3,
}
SCRATCH = {
    "model.checkpoint": None,
    "train.epochs": 3,
    "train.max_steps": None,
    "train.learning_rate": 1e-4,
    "train.keep": "best",
}
FINE_TUNED = SCRATCH | {"model.checkpoint": "models/source/MiniLM"}
FALLING = {"step": (10, 20, 30, 40, 50, 60, 70, 80), "loss": (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)}


def against(name, value, low, high):
    """Return metrics of a comparison with a simple model."""
    return {f"{name}_accuracy": value, f"accuracy_over_{name}_low": low, f"accuracy_over_{name}_high": high}


BEATEN = BASE | against("tfidf", 0.8, 0.05, 0.15)


def named(evaluated, params=SCRATCH, **curves):
    """Return the findings by name, in their order."""
    return {finding.name: finding for finding in judge_run(RunFacts(evaluated, params=params, **curves))}


def test_verdict_without_a_fault_is_one_sentence_with_the_interval_and_the_best_simple_model():
    (finding,) = judge_run(RunFacts(BEATEN | against("frozen", 0.85, 0.02, 0.08), params=FINE_TUNED))
    assert (finding.level, finding.advice) == ("good", "")
    assert "0.900 (95 % interval 0.880 to 0.920) on 1,000 rows" in finding.sentence
    assert "the frozen checkpoint" in finding.sentence
    assert "0.850, difference +0.020 to +0.080" in finding.sentence


def test_verdict_without_metrics_is_empty():
    assert judge_run(RunFacts({})) == []


def test_collapsed_model_is_not_praised_although_it_beats_tfidf():
    """PAWS, 300 rows: all positives are predicted 0, TF-IDF is worse than that."""
    collapsed = {
        "rows": 300,
        "accuracy": 0.573,
        "accuracy_low": 0.52,
        "accuracy_high": 0.63,
        "majority_accuracy": 0.573,
    }
    collapsed |= {
        "accuracy_over_majority_low": 0.0,
        "accuracy_over_majority_high": 0.0,
        "predicted_classes": 1,
    }
    collapsed |= {
        "never_predicted_classes": 1,
        "most_predicted_share": 1.0,
        **against("tfidf", 0.513, 0.01, 0.11),
    }
    findings = named(collapsed, FINE_TUNED)
    assert next(iter(findings)) == "one class"
    assert "the same class for all 300 rows" in findings["one class"].sentence
    assert "train.epochs=6" in findings["one class"].advice
    assert "pretrained" not in findings["one class"].advice
    assert findings.keys().isdisjoint({"good", "never predicted", "not above the majority"})


def test_split_with_one_class_is_no_collapse():
    assert "one class" not in named(BEATEN | {"predicted_classes": 1, "never_predicted_classes": 0})


@pytest.mark.parametrize(("weights", "advised"), [(None, True), ("balanced", False)])
def test_class_that_is_never_predicted_is_a_warning(weights, advised):
    evaluated = BEATEN | {"never_predicted_classes": 2, "predicted_classes": 3, "most_predicted_share": 0.6}
    finding = named(evaluated, SCRATCH | {"train.class_weights": weights})["never predicted"]
    assert "2 of 5 classes are never predicted; 60% of the rows" in finding.sentence
    assert ("train.class_weights=balanced" in finding.advice) == advised


SETS = {
    "rows": 500,
    "macro_f1": 0.7,
    "macro_f1_low": 0.67,
    "macro_f1_high": 0.73,
    "macro_f1_at_half": 0.65,
    "majority_macro_f1": 0.1,
    "macro_f1_over_majority_low": 0.5,
    "macro_f1_over_majority_high": 0.7,
    "tfidf_macro_f1": 0.6,
    "macro_f1_over_tfidf_low": 0.05,
    "macro_f1_over_tfidf_high": 0.15,
    "predicted_classes": 5,
    "never_predicted_classes": 0,
    "most_predicted_share": 0.6,
}
"""Metrics of several labels per row, without a fault."""


def with_thresholds(choose, target=None):
    """Return parameters with a rule for thresholds."""
    return SCRATCH | {"train.thresholds": {"choose": choose, "target": target, "at_least_one": False}}


def test_several_labels_are_praised_by_macro_f1_against_the_best_simple_model():
    (finding,) = judge_run(RunFacts(SETS, params=with_thresholds("f1")))
    assert "Macro F1 0.700 (95 % interval 0.670 to 0.730) on 500 rows" in finding.sentence
    assert "clearly above TF-IDF, the best of the simple models (0.600" in finding.sentence


@pytest.mark.parametrize("predicted", [2, 1])
def test_model_that_gives_all_rows_the_same_labels_has_collapsed(predicted):
    collapsed = SETS | {"most_predicted_share": 1.0, "predicted_classes": predicted, "macro_f1": 0.2}
    finding = named(collapsed | {"never_predicted_classes": 0})["one class"]
    assert "predicts the same set of labels for all 500 rows" in finding.sentence
    assert "train.epochs=6" in finding.advice


@pytest.mark.parametrize(
    ("params", "advice"),
    [
        (with_thresholds("half"), "First choose the thresholds on validation (train.thresholds.choose=f1)"),
        (
            with_thresholds("precision", 0.95),
            "First ask for less precision (train.thresholds.target was 0.95)",
        ),
        (with_thresholds("f1"), "Train longer (train.epochs=6)"),
        (SCRATCH, "Train longer (train.epochs=6)"),
    ],
)
def test_model_that_gives_no_label_at_all_is_told_of_thresholds_above_all_probabilities(params, advice):
    silent = SETS | {"most_predicted_share": 1.0, "predicted_classes": 0, "never_predicted_classes": 5}
    assert named(silent | {"macro_f1": 0.0}, params)["one class"].advice.startswith(advice)


def test_same_labels_in_every_row_of_the_split_are_no_collapse():
    findings = named(SETS | {"most_predicted_share": 1.0, "predicted_classes": 2, "macro_f1": 1.0})
    assert "one class" not in findings


@pytest.mark.parametrize(
    ("params", "advice"),
    [
        (with_thresholds("f1"), "try train.class_weights=balanced, or"),
        (
            with_thresholds("f1") | {"train.class_weights": "balanced"},
            "without predictions or join rare ones",
        ),
        (with_thresholds("half"), "choose the thresholds on validation (train.thresholds.choose=f1), or"),
        (with_thresholds("precision", 0.9), "ask for less precision (train.thresholds.target was 0.9), or"),
        (with_thresholds("recall", 0.9), "try train.class_weights=balanced, or"),
    ],
)
def test_labels_that_are_never_given_are_a_warning_although_rows_differ(params, advice):
    evaluated = SETS | {"predicted_classes": 1, "never_predicted_classes": 4, "most_predicted_share": 0.8}
    findings = named(evaluated, params)
    sentence = "4 of 5 labels are never predicted; 80% of the rows get the same set of labels."
    assert findings["never predicted"].sentence == sentence
    assert advice in findings["never predicted"].advice
    assert "one class" not in findings


def test_class_of_a_classification_is_not_told_of_thresholds():
    evaluated = BEATEN | {"never_predicted_classes": 2, "predicted_classes": 3}
    assert "class_weights" in named(evaluated, with_thresholds("half"))["never predicted"].advice


def test_thresholds_that_do_not_suit_the_rows_are_a_warning():
    finding = named(SETS | {"macro_f1_at_half": 0.75}, with_thresholds("f1"))["thresholds"]
    assert finding.level == "warning"
    assert "With thresholds of 0.5, Macro F1 would be 0.750 instead of 0.700" in finding.sentence
    assert "train.thresholds.choose=half" in finding.advice
    assert "thresholds" not in named(SETS | {"macro_f1_at_half": 0.72}, with_thresholds("f1"))


def test_thresholds_that_are_chosen_for_precision_are_no_mistake():
    finding = named(SETS | {"macro_f1_at_half": 0.75}, with_thresholds("precision", 0.9))["thresholds"]
    assert (finding.level, finding.advice) == ("note", "")
    assert "chosen for the precision" in finding.sentence


GOOD_SETS = SETS | {
    "labels_per_row": 1.5,
    "predicted_labels_per_row": 1.6,
    "micro_f1": 0.72,
    "tfidf_micro_f1": 0.7,
    "majority_micro_f1": 0.2,
    "subset_accuracy": 0.5,
    "majority_subset_accuracy": 0.1,
    "hamming_loss": 0.02,
    "majority_hamming_loss": 0.04,
}
"""The same, with what macro F1 hides."""


@pytest.mark.parametrize(
    ("fault", "name", "words"),
    [
        (
            {"predicted_labels_per_row": 3.0},
            "too many labels",
            "gives a row 3.00 labels on average, and a row has 1.50",
        ),
        ({"predicted_labels_per_row": 0.7}, "too few labels", "gives a row 0.70 labels"),
        ({"micro_f1": 0.383}, "micro F1", "worse than TF-IDF: Micro F1 0.383 against 0.700"),
        (
            {"subset_accuracy": 0.05},
            "not above the majority",
            "5.0% of the rows get exactly their labels, 10.0% would",
        ),
        (
            {"hamming_loss": 0.05},
            "not above the majority",
            "5.00% of all decisions are wrong, 4.00% would be",
        ),
    ],
)
def test_what_macro_f1_hides_of_several_labels_stops_a_good(fault, name, words):
    (good,) = judge_run(RunFacts(GOOD_SETS, params=with_thresholds("f1")))
    assert good.level == "good"
    finding, comparison = judge_run(RunFacts(GOOD_SETS | fault, params=with_thresholds("f1")))
    assert (finding.name, finding.level) == (name, "bad")
    assert words in finding.sentence
    assert finding.advice
    assert comparison.level == "note"
    assert comparison.sentence.startswith("Macro F1 0.700")


def test_micro_f1_within_chance_of_a_simple_model_is_no_fault():
    assert "good" in named(GOOD_SETS | {"micro_f1": 0.68}, with_thresholds("f1"))


@pytest.mark.parametrize(
    ("choose", "wanted"),
    [
        ("precision", {"predicted_labels_per_row": 0.5}),
        ("recall", {"predicted_labels_per_row": 4.0, "hamming_loss": 0.1, "subset_accuracy": 0.05}),
    ],
)
def test_target_of_the_thresholds_is_no_fault_of_the_predicted_sets(choose, wanted):
    assert "good" in named(GOOD_SETS | wanted, with_thresholds(choose, 0.9))


def test_advice_on_too_many_labels_is_a_value_that_is_not_set_yet():
    many = GOOD_SETS | {"predicted_labels_per_row": 3.0}
    assert "choose=precision" in named(many, with_thresholds("f1"))["too many labels"].advice
    assert "choose=f1" in named(many, with_thresholds("half"))["too many labels"].advice
    assert "it was 0.6" in named(many, with_thresholds("precision", 0.6))["too many labels"].advice


def test_validation_by_hamming_loss_improves_as_it_falls():
    curve = {"step": (10, 20), "loss": (0.5, 0.3), "hamming_loss": (0.2, 0.1)}
    assert "still improving" in named(SETS, with_thresholds("f1"), validation=curve)
    curve = {"step": (10, 20), "loss": (0.5, 0.3), "hamming_loss": (0.1, 0.2)}
    assert "still improving" not in named(SETS, with_thresholds("f1"), validation=curve)


def test_model_that_is_not_clearly_above_the_majority_is_told_so_whatever_tfidf_reaches():
    evaluated = BEATEN | {"accuracy_over_majority_low": -0.01, "accuracy_over_majority_high": 0.05}
    name, *_ = named(evaluated)
    assert name == "not above the majority"
    assert "not clearly above the majority baseline: 0.900 against 0.300" in named(evaluated)[name].sentence


def test_regression_that_is_not_above_zero_is_told_so():
    evaluated = {
        "rows": 50,
        "pearson": 0.1,
        "pearson_low": -0.1,
        "pearson_high": 0.3,
        "mean_mse": 2.0,
        "tfidf_pearson": -0.2,
    }
    evaluated |= {"pearson_over_tfidf_low": 0.1, "pearson_over_tfidf_high": 0.4}
    assert "0.100, 95 % interval -0.100 to 0.300" in named(evaluated)["not above the majority"].sentence


FROZEN_WINS = BEATEN | against("frozen", 0.93, -0.04, -0.02)
UNCLEAR = BEATEN | against("frozen", 0.89, -0.02, 0.04)


def test_frozen_checkpoint_that_wins_is_named_with_its_interval():
    finding = named(FROZEN_WINS, FINE_TUNED)["not above a simple model"]
    assert "is worse than the frozen checkpoint: Accuracy 0.900 against 0.930" in finding.sentence
    assert "-0.040 to -0.020" in finding.sentence
    assert "Use the frozen checkpoint" in finding.advice


@pytest.mark.parametrize(("params", "pretrained"), [(SCRATCH, True), (FINE_TUNED, False)])
@pytest.mark.parametrize("evaluated", [FROZEN_WINS, UNCLEAR, BEATEN | against("tfidf", 0.91, -0.03, 0.01)])
def test_advice_to_fine_tune_is_only_for_those_who_did_not(evaluated, params, pretrained):
    finding = named(evaluated, params)["not above a simple model"]
    assert ("ine-tune a pretrained checkpoint" in finding.advice) == pretrained


def test_model_without_an_error_is_not_told_to_become_better():
    solved = {"accuracy": 1.0, "accuracy_low": 0.98, "accuracy_high": 1.0}
    evaluated = BASE | solved | against("tfidf", 0.995, 0.0, 0.015)
    advice = named(evaluated, FINE_TUNED)["not above a simple model"].advice
    assert "use the simpler model, or test on more rows" in advice
    assert "more data" not in advice


def test_simple_models_that_are_not_beaten_are_all_named():
    evaluated = UNCLEAR | against("cosine", 0.88, -0.01, 0.05)
    sentence = named(evaluated, FINE_TUNED)["not above a simple model"].sentence
    assert "not clearly better than the frozen checkpoint" in sentence
    assert "Nor is it better than the cosine of frozen vectors" in sentence


def test_unclear_comparison_on_few_rows_says_how_many_would_tell():
    finding = named(UNCLEAR, FINE_TUNED)["few rows"]
    assert "1,000 rows show only" in finding.sentence
    assert "0.030" in finding.sentence
    assert "about 9,000 rows" in finding.advice  # three times as narrow
    assert "few rows" not in named(UNCLEAR | {"rows": 20_000}, FINE_TUNED)
    assert "few rows" not in named(UNCLEAR | against("cosine", 0.95, -0.06, -0.04), FINE_TUNED), (
        "the answer is clear"
    )


IMPROVING = {"step": (100, 200, 300), "loss": (0.6, 0.5, 0.4), "accuracy": (0.7, 0.8, 0.85)}


@pytest.mark.parametrize(
    ("params", "advice"),
    [
        ({"train.epochs": 3}, "train.epochs=6"),
        ({"train.epochs": None, "train.max_steps": 300}, "train.max_steps=600"),
    ],
)
def test_validation_that_still_improves_at_the_last_step_means_train_longer(params, advice):
    finding = named(BEATEN, SCRATCH | params, validation=IMPROVING)["still improving"]
    assert "accuracy 0.800 to 0.850, loss 0.500 to 0.400 since step 200" in finding.sentence
    assert advice in finding.advice


def test_error_that_still_falls_is_shown_as_it_is():
    errors = {"step": (100, 200, 300), "loss": (0.6, 0.5, 0.4), "mse": (0.9, 0.8, 0.7)}
    finding = named(BEATEN, validation=errors)["still improving"]
    assert "mse 0.800 to 0.700, loss" in finding.sentence


@pytest.mark.parametrize("changed", [{"accuracy": (0.7, 0.8, 0.8)}, {"loss": (0.6, 0.5, 0.47)}])
def test_validation_that_has_settled_is_no_finding(changed):
    assert "still improving" not in named(BEATEN, validation=IMPROVING | changed)


OVERFIT = {"step": (100, 200, 300), "loss": (0.5, 0.6, 0.8), "accuracy": (0.8, 0.8, 0.8)}


def test_overfitting_names_the_epoch():
    curves = {"validation": OVERFIT, "losses": FALLING, "training": {"steps": 300, "best_step": 100}}
    finding = named(BEATEN, FINE_TUNED, **curves)["overfitting"]
    assert finding.level == "note"
    assert "since epoch 1: the validation loss rises from 0.500 to 0.800" in finding.sentence
    assert "train.epochs=1" in finding.advice
    assert "before that were kept" in finding.advice
    late = named(BEATEN, FINE_TUNED, **curves | {"training": {"steps": 300, "best_step": 300}})["overfitting"]
    assert (late.level, late.advice) == (
        "warning",
        "The weights that were kept are of a later step: do not trust their confidence.",
    )
    by_steps = FINE_TUNED | {"train.max_steps": 300, "train.epochs": None, "train.keep": "last"}
    worse = {**curves, "validation": OVERFIT | {"accuracy": (0.8, 0.8, 0.7)}}
    last = named(BEATEN, by_steps, **worse)["overfitting"]
    assert "since step 100" in last.sentence
    assert (last.level, last.advice) == ("warning", "Set train.keep=best.")
    as_good = named(BEATEN, by_steps, **curves)["overfitting"]
    assert (as_good.level, "do not trust" in as_good.advice, "train.keep" in as_good.advice) == (
        "note",
        True,
        False,
    )


def test_small_rise_of_the_validation_loss_is_not_overfitting():
    assert "overfitting" not in named(
        BEATEN, validation=OVERFIT | {"loss": (0.5, 0.51, 0.52)}, losses=FALLING
    )


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        ((0.7, 0.6, 0.5, 0.5, 0.7, 0.8, 0.9, 1.1), "rises: from 0.500 to 1.000"),
        ((0.69, 0.7, 0.69, 0.7, 0.69, 0.7, 0.69, 0.7), "does not fall: 0.695 at first, 0.695 at the end"),
        ((0.7, 0.6, float("nan"), 0.5), "not a finite number at step 30"),
    ],
)
def test_training_loss_that_does_not_fall_means_a_lower_learning_rate(loss, words):
    losses = {"step": FALLING["step"][: len(loss)], "loss": loss}
    finding = named(BEATEN, losses=losses)["diverged"]
    assert words in finding.sentence
    assert "train.learning_rate=3e-05" in finding.advice


def test_training_loss_that_falls_is_no_finding():
    assert "diverged" not in named(BEATEN, losses=FALLING)


@pytest.mark.parametrize(("low", "level"), [(0.01, "warning"), (-0.01, "note")])
def test_leaked_rows_that_raise_the_metric_are_a_warning(low, level):
    leaks = {
        "accuracy_without_leaks": 0.88,
        "accuracy_without_leaks_low": 0.86,
        "accuracy_without_leaks_high": 0.9,
    }
    leaks |= {"accuracy_from_leaks_low": low, "accuracy_from_leaks_high": 0.03, "leaked_rows": 200}
    finding = named(BEATEN | leaks)["leaks"]
    assert finding.level == level
    assert ("raise it" in finding.sentence) == (level == "warning")


def test_most_confident_errors_are_called_wrong_labels_only_where_the_model_is_sure_and_right():
    assert "often wrong labels" in about_errors([0.99] * 95 + [0.95] * 5, [0.95] * 5)
    assert "too sure of itself" in about_errors([0.99] * 100, [0.95] * 40)
    assert "its highest confidence is 55%" in about_errors([0.9, 0.5, 0.55], [0.5, 0.55])
    assert about_errors([0.9], []) == ""


def test_next_steps_name_no_alternative_of_a_parameter_that_is_set():
    by_steps = SCRATCH | {"train.epochs": None, "train.max_steps": 60}
    commands = [command for command, _ in next_steps(RunFacts({}, params=by_steps, validation=IMPROVING))]
    assert "train.max_steps=120" in commands[0]
    assert not any("epochs" in command for command in commands)
    overfit = RunFacts({}, params=SCRATCH, validation=OVERFIT, losses=FALLING)
    assert not any("epochs" in command for command, _ in next_steps(overfit))


FROZEN = FINE_TUNED | {"model.head": "frozen"}
ITSELF = against("frozen", 0.9, 0.0, 0.0)


def test_frozen_head_is_not_judged_against_itself_but_against_the_cosine():
    assert list(named(BEATEN | ITSELF, FROZEN)) == ["good"]
    assert "not above a simple model" in named(BEATEN | ITSELF | against("cosine", 0.89, -0.01, 0.02), FROZEN)
    assert list(named(BEATEN | ITSELF, FINE_TUNED)) == ["not above a simple model"]
    (finding,) = judge_run(RunFacts(BEATEN | ITSELF, params=FROZEN))
    assert "TF-IDF, the best of the simple models" in finding.sentence


@pytest.mark.parametrize(
    "changes",
    [
        {
            "predicted_classes": 1,
            "never_predicted_classes": 3,
            "most_predicted_share": 1.0,
            "majority_accuracy": 0.9,
        },
        {"accuracy_over_majority_low": -0.01, "accuracy_over_majority_high": 0.05},
        {"never_predicted_classes": 2, "predicted_classes": 3, "most_predicted_share": 0.6},
        against("tfidf", 0.9, -0.01, 0.01),
        against("cosine", 0.9, -0.01, 0.01),
        against("tfidf", 0.95, -0.06, -0.04),
    ],
)
def test_no_advice_for_a_frozen_head_is_about_the_training_that_did_not_happen(changes):
    findings = judge_run(RunFacts(BEATEN | ITSELF | changes, params=FROZEN))
    assert findings[0].level == "bad" or "never predicted" in {finding.name for finding in findings}
    for finding in findings:
        assert not any(
            word in finding.advice for word in ("longer", "learning rate", "epochs", "class_weights")
        )
    commands = [command for command, _ in next_steps(RunFacts({}, params=FROZEN))]
    assert commands == ["tuneline run model.head=auto", "tuneline labels review"]


def test_fine_tuning_that_a_frozen_checkpoint_beats_names_the_run_that_publishes_it():
    worse, *_ = judge_run(RunFacts(BEATEN | against("frozen", 0.95, -0.06, -0.04), params=FINE_TUNED))
    unclear, *_ = judge_run(RunFacts(BEATEN | against("frozen", 0.9, -0.01, 0.01), params=FINE_TUNED))
    assert "tuneline run model.head=frozen" in worse.advice
    assert "tuneline run model.head=frozen" in unclear.advice
    assert "tuneline run model.head=auto" in unclear.advice, "validation can decide"


AUTO = FINE_TUNED | {"model.head": "auto"}
BOTH = {"head_is_frozen": 1, "frozen_calibrated_loss": 0.5, "tuned_calibrated_loss": 0.6}


def test_head_that_validation_chose_is_a_note_with_both_losses():
    frozen, tuned = (
        named(BEATEN, AUTO, training=BOTH | {"head_is_frozen": value})["chosen head"].sentence
        for value in (1, 0)
    )
    assert (
        "has chosen the linear one: loss 0.500 with the linear model on the frozen checkpoint, 0.600 with the"
        " fine-tuned one" in frozen
    )
    assert "has chosen the fine-tuned one" in tuned


@pytest.mark.parametrize(
    "changes",
    [
        against("cosine", 0.9, -0.01, 0.01),
        {"accuracy_over_majority_low": -0.01, "accuracy_over_majority_high": 0.05},
    ],
)
def test_fine_tuning_that_was_tried_is_not_advised_again(changes):
    run = RunFacts(
        BEATEN | ITSELF | changes, params=AUTO, training=BOTH, validation=IMPROVING, losses=FALLING
    )
    texts = [str(finding) for finding in judge_run(run)] + [command for command, _ in next_steps(run)]
    assert not any(word in text for text in texts for word in ("model.head", "epochs", "still improving"))
    assert any("larger checkpoint" in text for text in texts)


TUNED_CHOSEN = {"head_is_frozen": 0, "frozen_calibrated_loss": 0.6, "tuned_calibrated_loss": 0.5}


def test_model_that_validation_did_not_choose_is_not_advised():
    unclear = against("frozen", 0.88, -0.01, 0.05)
    finding = named(BEATEN | unclear, AUTO, training=TUNED_CHOSEN)
    advice = " ".join(one.advice for one in finding.values())
    assert "Validation has chosen this one of the two" in advice
    assert "simpler model" not in advice


@pytest.mark.parametrize(
    ("training", "close"), [(TUNED_CHOSEN, False), (TUNED_CHOSEN | {"tuned_calibrated_loss": 0.7}, True)]
)
def test_choice_against_the_losses_is_called_close(training, close):
    assert ("no clear difference" in named(BEATEN, AUTO, training=training)["chosen head"].sentence) == close


def test_advice_about_the_length_of_training_does_not_contradict_itself():
    """CoLA: "train longer", then "overfits since epoch 3"."""
    evaluated = BEATEN | {"accuracy_over_majority_low": -0.01, "accuracy_over_majority_high": 0.05}
    curves = {"validation": OVERFIT, "losses": FALLING, "training": {"steps": 300, "best_step": 100}}
    findings = named(evaluated, FINE_TUNED, **curves)
    assert "overfitting" in findings
    assert "longer" not in findings["not above the majority"].advice
    steps = next_steps(RunFacts(evaluated, params=FINE_TUNED, **curves))
    assert not any("epochs" in command for command, _ in steps)


def test_next_steps_begin_with_what_the_verdict_advises():
    run = RunFacts(UNCLEAR, params=FINE_TUNED, seconds=200, sweep=Path("conf/sweep/first.yaml"))
    commands = [command for command, _ in next_steps(run)]
    assert commands == [
        "tuneline run model.head=auto",
        "tuneline sweep conf/sweep/first.yaml",
        "tuneline labels review",
    ]
    costs = [purpose for _, purpose in next_steps(run)]
    assert costs[0].endswith("(about 3 min)")
    assert costs[1].endswith("(about 8 min)"), "9 x 1/9, then 3 x 2/9 and 2/3 of a training of 200 s"
    assert next_steps(RunFacts(BEATEN, params=FINE_TUNED))[0] == (
        "tuneline run train.learning_rate=5e-05",
        "half the learning rate",
    )


CLASSES = ("a", "b", "c")


@pytest.mark.parametrize(
    ("names", "skill", "first"), [(CLASSES, 6.0, "good"), (CLASSES, 0.5, "bad"), (None, 2.0, "good")]
)
def test_report_card_and_show_say_the_same(tmp_path, monkeypatch, names, skill, first):
    monkeypatch.chdir(tmp_path)
    FinishedProject(tmp_path, names).run_pipeline(skill=skill).commit()
    findings = judge_run(RunFacts.read(tmp_path, read_lock(tmp_path).params()))
    assert findings[0].level == first
    assert {finding.name for finding in findings} >= {"overfitting"}, "from the curves"
    assert CliRunner().invoke(app, ["report", "--no-latency"]).exit_code == 0
    page = (tmp_path / "reports/index.html").read_text()
    card = (tmp_path / "reports/model_card.md").read_text().replace("\\", "")
    shown = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["show"]).output
    assert f'<li class="{first}">{findings[0].sentence[:9]}' in page
    for finding in findings:
        assert finding.sentence.replace("'", "&#39;") in page
        assert str(finding) in card
        assert str(finding) in shown


def test_custom_metric_is_in_report_card_and_show(project):
    metrics = json.loads((project.root / "metrics/evaluate.json").read_text())
    others = {"invariance_pass_rate": 0.4321, "worst_slice_accuracy": 0.4321}
    project.write("metrics/evaluate.json", {**metrics, **others, "balanced_accuracy": 0.1234})
    assert CliRunner().invoke(app, ["report", "--no-latency"]).exit_code == 0
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["show"]).output
    card = (project.root / "reports/model_card.md").read_text()
    assert "<dt>Balanced accuracy</dt><dd>0.123" in (project.root / "reports/index.html").read_text()
    assert "| Balanced accuracy | 0.123 |" in card
    assert "type: balanced_accuracy" in card
    assert "Balanced accuracy" in shown
    assert "0.1234" in shown
    assert "0.4321" not in shown
