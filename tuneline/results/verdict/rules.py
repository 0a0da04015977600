"""The rules of the verdict: each returns a finding, or none, from the numbers of a run.

No prose here: ``words.py`` has the sentence of each code.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from tuneline.evaluation.keys import (
    INDEPENDENT_ROWS,
    LABELS_PER_ROW,
    LEAKED_ROWS,
    MAJORITY,
    MOST_PREDICTED,
    NEVER_PREDICTED,
    PREDICTED_CLASSES,
    PREDICTED_LABELS_PER_ROW,
    baseline_key,
    clean_keys,
    interval_keys,
    leak_keys,
)
from tuneline.evaluation.table import ALL_METRICS
from tuneline.metrics.table import Metric
from tuneline.onnx.comparison_records import ComparisonRecord
from tuneline.results.verdict.facts import (
    OVERFIT,
    Comparison,
    Finding,
    RunFacts,
    as_shown,
    comparisons,
    rivals,
    unbeaten,
)

CLEAR_LOSS = 0.02
"""Least relative change of a loss that is more than noise."""
STILL_FALLS = 0.1
"""Least relative fall of the validation loss at the last evaluation that asks for more steps.

A schedule that ends at a learning rate of 0 lowers the last loss also where the model has learned what it
can. On the sample, after falls of 5 and 3 % (seeds 42 and 2), training twice as long gave a test accuracy of
0.956 and 0.949 instead of 0.957 and 0.956.
"""
FEW_ROWS = 2_000
"""Independent rows of the reported split below which more of them could decide an unclear comparison."""
MOST_LEAKED = 0.5
"""Largest share of leaked rows with which the metric of all rows is judged."""
FEWEST = 10
"""Fewest independent rows that are judged at all."""
AS_GOOD = 0.03
"""Largest fall of the validation metric after its best evaluation that few rows show by chance."""
UNBALANCED = 0.8
"""Majority accuracy from which class weights are worth a try."""
CONFIDENT = 0.9
"""Confidence of an error from which its label may be the mistake.

It is one only if the model is right this often where it is as confident.
"""


def judge_run(run: RunFacts) -> list[Finding]:
    """Return the findings, the most important first; the first one compares the model with the simple models.

    Without metrics there is no finding.
    """
    metric = run.metric
    if metric is None:
        return []

    doubt = undecided(run, metric)
    findings = _quality(run, metric, doubt)
    candidates = [_chosen_head(run), _never_predicted(run, metric)]
    # The curves say nothing of a linear model, which is fitted in one go.
    if not run.is_frozen:
        candidates.append(_diverged(run))
    # Rows that cannot tell how good a model is cannot tell what a longer training is worth.
    if not run.is_frozen and doubt is None:
        candidates += [still_improving(run), _overfitting(run)]
    if doubt is None:
        candidates += [leaks(run), _few_rows(run, metric)]
    for finding in candidates:
        if finding is not None:
            findings.append(finding)

    if run.compared is not None:
        findings += exported_models(run.compared)
    return findings


def _quality(run: RunFacts, metric: Metric, doubt: Finding | None) -> list[Finding]:
    """Return how good the model is, by the first rule that applies; ``doubt`` is the one of ``undecided``."""
    collapsed = _collapsed(run, metric)
    if collapsed is not None:
        return [collapsed]
    if doubt is not None:
        return [doubt]

    # the rows without the leaked ones, where most are leaked
    if run.leaked_share > MOST_LEAKED:
        compared = _against_simple_models(run.without_leaks, metric)
        findings = [replace(finding, of_clean_rows=True) for finding in compared]
        if findings:
            return findings
    return _with_sets_of_labels(run, metric, _against_simple_models(run, metric))


def _has_collapsed(run: RunFacts, metric: Metric) -> bool:
    """Return True if all rows get the same prediction, unless it is right for all of them."""
    return run.evaluated.get(MOST_PREDICTED) == 1 and run.evaluated[metric.name] < 1


def _collapsed(run: RunFacts, metric: Metric) -> Finding | None:
    if not _has_collapsed(run, metric):
        return None
    remedy = _lower_thresholds(run)
    numbers = {
        "metric": metric,
        "rows": run.rows,
        "value": run.evaluated[metric.name],
        "majority": run.evaluated.get(str(baseline_key(metric, MAJORITY)), 0.0),
        "rate": run.params.get("train.learning_rate"),
        "longer": run.longer,
        "remedy": remedy,
        "target": run.thresholds.get("target"),
    }

    # No label at all can also mean that the probabilities are below the thresholds.
    if remedy and run.evaluated.get(PREDICTED_CLASSES) == 0:
        return Finding("one_prediction", "bad", numbers, ("first_thresholds",))
    if run.is_frozen:
        return Finding("one_prediction", "bad", numbers, _learn_more(run))

    # Both a rate that is too high and too few steps collapse a model.
    advice = ["lower_rate" if run.overfits else "longer_or_lower_rate"]
    is_unbalanced = run.evaluated.get("majority_accuracy", 0.0) > UNBALANCED
    if is_unbalanced and not run.params.get("train.class_weights"):
        advice.append("or_weights")
    return Finding("one_prediction", "bad", numbers, tuple(advice))


def undecided(run: RunFacts, metric: Metric) -> Finding | None:
    """Return that too few independent rows, or too few that training has not seen, are left to judge."""
    numbers = {"metric": metric, "value": run.evaluated[metric.name], **run.counts}
    if run.leaked_share > MOST_LEAKED:
        clean = run.without_leaks
        if metric.name in clean.evaluated and clean.clusters >= FEWEST:
            return None
        numbers["leaked"] = int(run.evaluated[LEAKED_ROWS])
        return Finding("undecided_leaked", "bad", numbers, ("divide",))

    if run.clusters == run.rows or run.clusters >= FEWEST:
        return None
    return Finding("undecided_few", "bad", numbers, ("test_on_more",))


def _against_simple_models(run: RunFacts, metric: Metric) -> list[Finding]:
    """Return the comparison with predictions without the text, and with the simple models."""
    finding = _not_above_uninformed(run, metric)
    if finding is not None:
        return [finding]

    better = unbeaten(run, metric)
    if better:
        best = better[0]
        code = "worse_than_simple_model" if best.is_worse else "not_above_simple_model"
        numbers = {"metric": metric, "best": best, "others": better[1:]}
        return [Finding(code, "bad", numbers, (_instead(run, best),))]

    compared = comparisons(run, metric)
    if not compared:
        return []
    low_key, high_key = interval_keys(metric)
    numbers = {
        "metric": metric,
        "value": run.evaluated[metric.name],
        "low": run.evaluated.get(low_key),
        "high": run.evaluated.get(high_key),
        "best": compared[0],
        "compared": len(compared),
        **run.counts,
    }
    return [Finding("good", "good", numbers)]


def _with_sets_of_labels(run: RunFacts, metric: Metric, compared: list[Finding]) -> list[Finding]:
    """Add what the metric hides of several labels; a model with such a fault is not called good."""
    faults = faults_of_sets(run, metric)
    if not faults or not compared or compared[0].severity != "good":
        return [*compared, *faults]
    return [*faults, Finding("above_simple_models", "note", compared[0].numbers)]


def _not_above_uninformed(run: RunFacts, metric: Metric) -> Finding | None:
    """Return that the metric is not above predictions without the text.

    Their value is either known by convention, or measured: the majority baseline.
    """
    low_key, high_key = interval_keys(metric)
    low = run.evaluated.get(low_key)
    if metric.uninformed is not None and low is not None and as_shown(low) <= metric.uninformed:
        numbers = {
            "metric": metric,
            "value": run.evaluated[metric.name],
            "low": low,
            "high": run.evaluated.get(high_key),
            "longer": run.longer,
        }
        return Finding("not_above_uninformed", "bad", numbers, _learn_more(run))

    for comparison in unbeaten(run, metric):
        if comparison.name == MAJORITY:
            code = "worse_than_majority" if comparison.is_worse else "not_above_majority"
            numbers = {"metric": metric, "best": comparison, "longer": run.longer}
            return Finding(code, "bad", numbers, _learn_more(run))
    return None


def _learn_more(run: RunFacts) -> tuple[str, ...]:
    """Return what to do about a model that is not above predictions without the text."""
    if run.is_frozen and not run.has_tried_both:
        return ("tune_too_and_look",)
    if run.is_frozen:
        return ("both_learned_too_little",)
    if run.overfits:
        return ("more_data_than_steps",)
    if not run.is_fine_tuned:
        return "tune_a_checkpoint", "train_longer_and_look"
    return ("train_longer_and_look",)


def _instead(run: RunFacts, best: Comparison) -> str:
    """Return what to do about a simple model that is not beaten."""
    if best.model == 1:
        return "nothing_to_gain"

    # A simple model that is clearly better is to be used; one that is as good is only the cheaper choice.
    if best.is_worse and run.is_fine_tuned:
        advice = "use_simple_model"
    elif best.is_worse:
        advice = "use_simple_model_or_tune"
    elif not run.is_fine_tuned:
        advice = "tune_or_use_simpler"
    elif run.is_frozen and run.has_tried_both:
        advice = "tuning_was_no_better"
    elif run.is_frozen:
        advice = "tune_too_or_use_simpler"
    elif best.name != "frozen":
        advice = "larger_or_use_simpler"
    elif run.has_tried_both:
        advice = "validation_chose_this"
    else:
        advice = "let_validation_decide"
    return advice


def _never_predicted(run: RunFacts, metric: Metric) -> Finding | None:
    never = int(run.evaluated.get(NEVER_PREDICTED, 0))
    predicted = int(run.evaluated.get(PREDICTED_CLASSES, 0))
    if not never or _has_collapsed(run, metric):
        return None

    remedy = _lower_thresholds(run)
    if not remedy and not run.params.get("train.class_weights") and not run.is_frozen:
        remedy = "weights"
    numbers = {
        "metric": metric,
        "never": never,
        "classes": never + predicted,
        "share": run.evaluated.get(MOST_PREDICTED, 0.0),
        "remedy": remedy,
        "target": run.thresholds.get("target"),
    }
    return Finding("never_predicted", "warning", numbers, ("more_rows_of_classes",))


def _lower_thresholds(run: RunFacts) -> str | None:
    """Return how rows can get more labels.

    ``None`` where thresholds are chosen for that, or there are none.
    """
    if "macro_f1" not in run.evaluated:
        return None
    remedies = {"half": "choose_thresholds", "precision": "less_precision"}
    return remedies.get(run.thresholds["choose"])


def _chosen_head(run: RunFacts) -> Finding | None:
    """Return a note about the model that ``model.head: auto`` has chosen."""
    frozen = run.training.get("frozen_calibrated_loss")
    tuned = run.training.get("tuned_calibrated_loss")
    if run.params.get("model.head") != "auto" or frozen is None or tuned is None:
        return None

    code = "chosen_by_loss"
    is_worse = frozen > tuned if run.is_frozen else tuned > frozen
    if is_worse and run.training.get("head_by_metric"):
        code = "chosen_by_metric"
    elif is_worse:
        code = "chosen_by_default"
    numbers = {"metric": run.metric, "is_frozen": run.is_frozen, "frozen": frozen, "tuned": tuned}
    return Finding(code, "note", numbers)


def _diverged(run: RunFacts) -> Finding | None:
    losses = run.losses.get("loss", ())
    if len(losses) < 4:
        return None
    rate = run.params.get("train.learning_rate")
    numbers: dict[str, Any] = {"lower": rate / 3 if rate else None}
    advice = ("lower_the_rate",)

    for index, loss in enumerate(losses):
        if not math.isfinite(loss):
            numbers["step"] = run.losses["step"][index]
            return Finding("loss_not_finite", "bad", numbers, advice)

    # Single losses are noisy: compare the means of quarters. A rest of up to three losses is left out.
    size = len(losses) // 4
    means = []
    for start in range(0, len(losses) - size + 1, size):
        means.append(fmean(losses[start : start + size]))
    numbers |= {"first": means[0], "lowest": min(means), "last": means[-1]}
    if means[-1] <= means[0] * (1 - CLEAR_LOSS):
        return None
    if means[-1] > min(means) * (1 + OVERFIT):
        return Finding("loss_rises", "bad", numbers, advice)
    return Finding("loss_does_not_fall", "warning", numbers, advice)


def still_improving(run: RunFacts) -> Finding | None:
    """Return that the last evaluation on validation was clearly the best."""
    name, metric = run.validated
    losses = run.validation.get("loss", ())
    steps = run.validation.get("step", ())
    if len(steps) < 2:
        return None
    is_best = as_shown(metric[-1]) > as_shown(max(metric[:-1]))
    if not is_best or losses[-1] > min(losses[:-1]) * (1 - STILL_FALLS):
        return None
    values = run.validation.get(name, ())
    numbers = {
        "name": name,
        "before": values[-2],
        "value": values[-1],
        "loss_before": losses[-2],
        "loss": losses[-1],
        "step": steps[-2],
        "longer": run.longer,
    }
    return Finding("still_improving", "warning", numbers, ("train_longer",))


def _overfitting(run: RunFacts) -> Finding | None:
    if not run.overfits:
        return None
    losses = run.validation["loss"]
    best = list(losses).index(min(losses))
    best_step = run.validation.get("step", ())[best]  # the step after which the validation loss rises
    steps_per_epoch = run.steps_per_epoch
    epoch = best_step / steps_per_epoch if steps_per_epoch else None
    name, metric = run.validated
    numbers: dict[str, Any] = {
        "step": best_step,
        "epoch": epoch,
        "lowest": losses[best],
        "last": losses[-1],
        "name": name,
    }

    # The last weights were kept: what matters is how much worse they are than the best ones.
    if run.params.get("train.keep", "best") != "best":
        if metric[-1] >= max(metric) - AS_GOOD:
            return Finding("overfitting", "note", numbers, ("distrust_confidence",))
        return Finding("overfitting", "warning", numbers, ("keep_best",))

    # The metric can be best at a later step than the loss: its weights are too sure of themselves.
    if run.training.get("best_step", best_step) > best_step:
        return Finding("overfitting", "warning", numbers, ("later_weights_kept",))

    advice = ["earlier_weights_kept"]
    if epoch is not None:
        numbers["epochs"] = max(1, math.ceil(epoch))
        if numbers["epochs"] < run.params["train.epochs"]:
            advice.append("fewer_epochs")
    return Finding("overfitting", "note", numbers, tuple(advice))


def leaks(run: RunFacts) -> Finding | None:
    """Return the metric that decides without leaked rows, and whether these raise it.

    Leaked rows repeat or resemble a row of an earlier split.

    ``None`` if there is no leaked row, or no other row.
    """
    metric = run.metric
    if metric is None:
        return None
    keys = (metric.name, *clean_keys(metric), *leak_keys(metric))
    if not all(key in run.evaluated for key in keys):
        return None

    # The gain is the metric of every row less the metric without the leaked ones.
    every, without, low, high, gain_low, gain_high = (run.evaluated[key] for key in keys)
    gain = as_shown(every - without)
    clean = run.without_leaks
    numbers = {
        "metric": metric,
        "leaked": int(run.evaluated[LEAKED_ROWS]),
        "all_rows": run.rows,
        "without": without,
        "low": low,
        "high": high,
        "gain": gain,
        "gain_low": gain_low,
        "gain_high": gain_high,
        **clean.counts,
        "clusters_are_known": INDEPENDENT_ROWS in clean.evaluated,
    }
    if gain != 0 and as_shown(gain_low) > 0:
        return Finding("leaks_raise", "warning", numbers, ("trust_clean_metric",))
    if gain != 0 and as_shown(gain_high) < 0:
        return Finding("leaks_lower", "note", numbers)
    return Finding("leaks_unclear", "note", numbers)


def _few_rows(run: RunFacts, metric: Metric) -> Finding | None:
    """Return a note if there are too few rows to compare with the best simple model that is not beaten."""
    better = unbeaten(run, metric)
    if not better or run.clusters >= FEW_ROWS:
        return None
    best = better[0]
    if best.is_worse or best.high == best.low:
        return None

    half_width = (best.high - best.low) / 2
    difference = abs(best.model - best.simple)
    numbers = {"half_width": half_width, "difference": difference, **run.counts}
    # A larger difference is as large as the rows show, and none needs no rows.
    if as_shown(difference) == 0 or as_shown(difference) >= as_shown(half_width):
        return Finding("few_rows", "note", numbers)

    # The width of an interval falls with the square root of the rows.
    needed = run.clusters * (half_width / difference) ** 2
    if needed >= 100 * run.clusters:
        return Finding("few_rows", "note", numbers)
    numbers["needed"] = _rounded_up(needed)
    return Finding("few_rows", "note", numbers, ("rows_needed",))


def _rounded_up(number: float) -> int:
    """Return a number of rows rounded up to two digits: more would pretend to be exact."""
    unit: int = 10 ** max(0, len(str(int(number))) - 2)
    return math.ceil(number / unit) * unit


def exported_models(comparison: ComparisonRecord) -> Iterator[Finding]:
    """Yield what a user should know: no published model, or a rounded one left out or published in doubt."""
    nothing_published = False
    for precision, model in comparison.models.items():
        if model.violations and model.required:
            nothing_published = True
            numbers = {"precision": precision, "reasons": model.violations}
            yield Finding("nothing_published", "bad", numbers, ("checkout_earlier_model",))
    if nothing_published:  # then no other model is published, in doubt or not
        return

    for precision, model in comparison.models.items():
        if model.violations:
            numbers = {"precision": precision, "reasons": model.violations}
            yield Finding("left_out", "warning", numbers, ("fp32_is_published",))
        elif model.unclear:
            numbers = {"precision": precision, "reasons": model.unclear}
            yield Finding("published_in_doubt", "note", numbers, ("fp32_is_the_same",))


def judge_errors(confidences: Sequence[float], errors: Sequence[float]) -> Finding | None:
    """Return what the most confident errors are; ``None`` without errors.

    They are often wrong labels only where the model is nearly always right: the errors of an unsure model are
    its own mistakes.

    Args:
        confidences: Confidence of all predictions.
        errors: Confidence of the wrong predictions.
    """
    if not errors:
        return None
    sure = sum(confidence >= CONFIDENT for confidence in confidences)
    wrong = sum(confidence >= CONFIDENT for confidence in errors)
    if not wrong:
        return Finding("errors_unsure", "note", {"highest": max(errors)})

    numbers = {"sure": sure, "right": sure - wrong, "wrong": wrong, "confident": CONFIDENT}
    code = "errors_too_sure"
    if 1 - wrong / sure >= CONFIDENT:
        code = "errors_are_wrong_labels"
    return Finding(code, "note", numbers)


# --- what macro F1 does not say of several labels: it counts each label once, however rare it is

MICRO = ALL_METRICS["micro_f1"]
MOST_TIMES = 1.5
"""Times the labels of a row that a model may give, or fewer by the same factor."""


def faults_of_sets(run: RunFacts, deciding: Metric) -> list[Finding]:
    """Return what is wrong with the predicted sets, the most important first.

    What a target of precision or recall asks for (``train.thresholds``) is no fault.
    """
    candidates = [_labels_per_row(run)]
    if deciding.name != MICRO.name:
        candidates.append(_micro_f1(run, deciding))
    if run.thresholds["choose"] != "recall":
        candidates.append(_not_above_one_set(run))
    return [finding for finding in candidates if finding is not None]


def _labels_per_row(run: RunFacts) -> Finding | None:
    actual = run.evaluated.get(LABELS_PER_ROW, 0.0)
    predicted = run.evaluated.get(PREDICTED_LABELS_PER_ROW, 0.0)
    choose = run.thresholds["choose"]
    numbers = {"predicted": predicted, "actual": actual}
    if predicted > MOST_TIMES * actual > 0 and choose != "recall":
        return _asking("too_many_labels", "precision", numbers, run)
    if predicted * MOST_TIMES < actual and choose != "precision":
        return _asking("too_few_labels", "recall", numbers, run)
    return None


def _asking(code: str, measure: str, numbers: Mapping[str, Any], run: RunFacts) -> Finding:
    """Return a finding that asks for a higher ``precision`` or ``recall``."""
    choose = run.thresholds["choose"]
    advice = "ask_for_measure"
    if choose == "half":
        advice = "choose_thresholds_first"
    elif choose == measure:
        advice = "raise_target"
    numbers = {**numbers, "measure": measure, "target": run.thresholds.get("target")}
    return Finding(code, "bad", numbers, (advice,))


def _micro_f1(run: RunFacts, deciding: Metric) -> Finding | None:
    """Return that a simple model has a higher micro F1, by more than half the interval of macro F1.

    Micro F1 is of more decisions, so chance moves it less.
    """
    evaluated = run.evaluated
    values = {}
    for name in rivals(run.is_frozen):
        value = evaluated.get(str(baseline_key(MICRO, name)))
        if value is not None:
            values[name] = value
    if MICRO.name not in evaluated or not values:
        return None

    best = max(values, key=lambda name: values[name])
    low_key, high_key = interval_keys(deciding)
    chance = (evaluated.get(high_key, 0.0) - evaluated.get(low_key, 0.0)) / 2
    if as_shown(evaluated[MICRO.name]) >= as_shown(values[best] - chance):
        return None
    numbers = {
        "metric": MICRO,
        "model": best,
        "value": evaluated[MICRO.name],
        "simple": values[best],
    }
    return Finding("worse_micro_f1", "bad", numbers, ("simple_for_frequent_labels",))


def _not_above_one_set(run: RunFacts) -> Finding | None:
    """Return that one set of labels for all rows would be right for as many rows."""
    value = run.evaluated.get("subset_accuracy")
    majority = run.evaluated.get("majority_subset_accuracy")
    if value is None or majority is None or value > majority:
        return None
    numbers = {"value": value, "majority": majority}

    evaluated = run.evaluated
    if evaluated.get(PREDICTED_LABELS_PER_ROW, 0.0) > evaluated.get(LABELS_PER_ROW, 0.0):
        return _asking("not_above_one_set", "precision", numbers, run)
    return Finding("not_above_one_set", "bad", numbers, ("more_rows_of_rare_labels",))


RUN = "dvc exp run --temp train -S"
"""Command that trains with another value."""
TRY_BOTH = f"{RUN} model.head=auto"
REVIEW = "tuneline labels review"
HALVING_COST = 3.0
"""Cost of the first sweep, in trainings.

Of nine variants, all train a ninth of the steps, three a third, and one all of them.
"""


@dataclass(frozen=True)
class NextStep:
    """A command that runs as printed in a project with the result.

    Attributes:
        code: Name of its purpose, which ``words.py`` has.
        seconds: How long it takes; ``None`` if that is not known, or nothing is trained.
    """

    code: str
    command: str
    seconds: float | None = None


def next_steps(run: RunFacts) -> list[NextStep]:
    """Return next steps, the best first."""
    review = NextStep("review", REVIEW)
    # rows that cannot tell how good a model is cannot tell if another one is better
    if run.metric is not None and undecided(run, run.metric) is not None:
        return [review]

    steps = []
    if not run.is_frozen:
        steps += _training_steps(run)
    elif not run.has_tried_both:
        steps.append(_training("tune_too", TRY_BOTH, run, 1))
    return [*steps, review]


def _training_steps(run: RunFacts) -> list[NextStep]:
    """Return the next steps after a fine-tuned model, or one that was trained from scratch."""
    steps = []
    rivals = set()
    if run.metric is not None:
        rivals = {comparison.name for comparison in unbeaten(run, run.metric)}
    if "frozen" in rivals and not run.has_tried_both:
        steps.append(_training("fit_frozen_too", TRY_BOTH, run, 1))
    if still_improving(run) is not None:
        steps.append(_training("twice_as_long", f"{RUN} {run.longer}", run, 2))

    # A sweep tries several rates: half the rate is for projects without one.
    rate = run.params.get("train.learning_rate")
    if run.sweep is not None:
        steps.append(_training("sweep", f"tuneline sweep {run.sweep}", run, HALVING_COST))
    elif rate:
        steps.append(_training("half_rate", f"{RUN} train.learning_rate={rate / 2:.2g}", run, 1))
    return steps


def _training(code: str, command: str, run: RunFacts, trainings: float) -> NextStep:
    """Return a step that takes as long as some trainings."""
    if run.seconds is None:
        return NextStep(code, command)
    return NextStep(code, command, trainings * run.seconds)
