"""The rules of the verdict: what a careful colleague would say of a run, and what to do about it.

Each rule returns a finding, or none, from what is known of the run.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from tuneline.core.paths import ONNX
from tuneline.judge.evaluation.keys import (
    FROZEN_MODEL,
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
)
from tuneline.judge.metrics.table import Metric
from tuneline.onnx.comparison_records import ComparisonRecord
from tuneline.page.titles import PREDICTION_TERMS
from tuneline.page.verdict.facts import UNIT, Comparison, RunFacts, as_shown, comparisons, unbeaten

CLEAR_LOSS = 0.02
"""Least relative change of a loss that is more than noise."""
STILL_FALLS = 0.1
"""Least relative fall of the validation loss at the last evaluation that asks for more steps.

A schedule that ends at a learning rate of 0 lowers the last loss also where the model has learned what it
can. On the sample, after falls of 5 and 3 % (seeds 42 and 2), training twice as long gave a test accuracy of
0.956 and 0.949 instead of 0.957 and 0.956.
"""
MOST_LEAKED = 0.5
"""Largest share of leaked rows with which the metric of all rows is judged."""
FEWEST = 10
"""Fewest independent rows that are judged at all."""
CONFIDENT = 0.9
"""Confidence of an error from which its label may be the mistake.

It is one only if the model is right this often where it is as confident.
"""
MOST_TIMES = 1.5
"""Times the labels of a row that a model may give, or fewer by the same factor."""
RUN = "dvc exp run --temp train -S"
"""Command that trains with another value."""
TRY_BOTH = f"{RUN} model.head=auto"
REVIEW = "tuneline labels review"
OTHER_CHECKPOINT = "tuneline init FILE --checkpoint NAME"
EARLIER_MODEL = f"`dvc checkout {ONNX}` brings back the one of dvc.lock."
LOOK = f"look at the labels ({REVIEW})"
LOWER = "lower the thresholds of the labels (train.thresholds)"
LANGUAGE = f"Fine-tune a checkpoint for the language of the texts, or a multilingual one ({OTHER_CHECKPOINT})"
LARGER = f"fine-tune a larger checkpoint ({OTHER_CHECKPOINT})"

FindingSeverity = Literal["good", "bad", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """What is said of a run.

    Attributes:
        code: Name of the finding.
        severity: What it means for the use of the model.
        sentence: What is the case, with its numbers.
        advice: What to do about it; empty if nothing is.
    """

    code: str
    severity: FindingSeverity
    sentence: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}".strip()


def judge_run(run: RunFacts) -> list[Finding]:
    """Return the findings, the most important first; the first one says how good the model is.

    Without metrics there is no finding.
    """
    metric = run.metric
    if metric is None:
        return []

    doubt = undecided(run, metric)
    findings = _quality(run, metric, doubt)
    candidates = [_unknown_language(run), _chosen_head(run, metric), _never_predicted(run, metric)]
    # The curves say nothing of a linear model, which is fitted in one go.
    if not run.is_frozen:
        candidates.append(_diverged(run))
    # Rows that cannot tell how good a model is cannot tell what a longer training is worth.
    if not run.is_frozen and doubt is None:
        candidates += [_still_improving(run), _overfitting(run)]
    if doubt is None:
        candidates.append(leaks(run, metric))
    for finding in candidates:
        if finding is not None:
            findings.append(finding)

    if run.compared is not None:
        findings += exported_models(run.compared)
    return findings


# --- how good the model is


def _quality(run: RunFacts, metric: Metric, doubt: Finding | None) -> list[Finding]:
    """Return how good the model is, by the first rule that applies; ``doubt`` is the one of ``undecided``."""
    if _has_collapsed(run, metric):
        return [_collapsed(run, metric)]
    if doubt is not None:
        return [doubt]

    # the rows without the leaked ones, where most are leaked
    if run.leaked_share > MOST_LEAKED:
        clean = _against_words(run.without_leaks, metric)
        if clean is not None:
            sentence = f"Without rows that repeat or resemble a row of an earlier split: {clean.sentence}"
            return [replace(clean, sentence=sentence), *_against_frozen(run.without_leaks, metric, clean)]

    compared = _against_words(run, metric)
    fault = _labels_per_row(run)
    findings = _against_frozen(run, metric, compared)
    if compared is not None:
        if fault is not None and compared.severity == "good":
            # a model with such a fault is not called good
            sentence = compared.sentence.removeprefix("Good: ")
            compared = replace(compared, severity="note", sentence=sentence)
        findings.insert(0, compared)
    if fault is not None:
        findings.insert(0, fault)
    return findings


def _has_collapsed(run: RunFacts, metric: Metric) -> bool:
    """Return True if all rows get the same prediction, unless it is right for all of them."""
    return run.evaluated.get(MOST_PREDICTED) == 1 and run.evaluated[metric.name] < 1


def _collapsed(run: RunFacts, metric: Metric) -> Finding:
    prediction, _ = PREDICTION_TERMS[metric.kinds[0]]
    majority = run.evaluated.get(str(baseline_key(metric, MAJORITY)), 0.0)
    sentence = (
        f"The model predicts the same {prediction} for all {run.rows:,} rows: it has learned nothing from the"
        f" texts ({run.title_of(metric.name)} {run.evaluated[metric.name]:.3f}, the majority baseline"
        f" {majority:.3f})."
    )

    if run.evaluated.get(PREDICTED_CLASSES) == 0:
        advice = f"First {LOWER}: no probability is above a threshold."
    elif run.is_frozen:
        advice = _learn_more(run)
    else:
        # Both a rate that is too high and too few steps collapse a model.
        advice = f"Train longer ({run.longer}) or with a lower train.learning_rate."
    return Finding("one_prediction", "bad", sentence, advice)


def undecided(run: RunFacts, metric: Metric) -> Finding | None:
    """Return that too few independent rows, or too few that training has not seen, are left to judge."""
    value = f"{run.title_of(metric.name)} {run.evaluated[metric.name]:.3f}"
    if run.leaked_share > MOST_LEAKED:
        clean = run.without_leaks
        if metric.name in clean.evaluated and clean.clusters >= FEWEST:
            return None
        return Finding(
            "undecided_leaked",
            "bad",
            f"These rows cannot tell how good the model is: {run.evaluated[LEAKED_ROWS]:,.0f} of"
            f" {run.rows:,} repeat or resemble a row of an earlier split, which it may know by heart"
            f" ({value}).",
            "Divide the data by what such rows have in common (data.split.by: a customer, a document), so"
            " that none of it is in two splits, or leave the copies out (docs/data-checks.md), and train"
            " again.",
        )

    if run.clusters == run.rows or run.clusters >= FEWEST:
        return None
    return Finding(
        "undecided_few",
        "bad",
        f"These rows cannot tell how good the model is: {run.evidence}, too few for an interval ({value}).",
        f"Test on more {UNIT}.",
    )


def _against_words(run: RunFacts, metric: Metric) -> Finding | None:
    """Return the comparison with predictions without the text, and of words, which decides the colour.

    The frozen checkpoint plays no part: a weaker model that is published from it gets the same rivals.
    """
    finding = _not_above_uninformed(run, metric)
    if finding is not None:
        return finding

    title = run.title_of(metric.name)
    compared = [comparison for comparison in comparisons(run, metric) if comparison.name != FROZEN_MODEL]
    better = [comparison for comparison in compared if not comparison.beaten]
    if better:
        best = better[0]
        sentence = f"The model {best.verb} {best.title}: {title} {best}."
        return Finding("not_above_simple_model", "bad", sentence, _instead(run, best))

    if not compared:
        return None
    best = compared[0]
    value = f"{run.evaluated[metric.name]:.3f}"
    low_key, high_key = interval_keys(metric)
    if low_key in run.evaluated:
        value += f" (95 % interval {run.evaluated[low_key]:.3f} to {run.evaluated[high_key]:.3f})"
    return Finding(
        "good",
        "good",
        f"Good: {title} {value} on {run.evidence}, clearly above {best.title} ({best.simple:.3f}, difference"
        f" {best.low:+.3f} to {best.high:+.3f}).",
    )


def _against_frozen(run: RunFacts, metric: Metric, compared: Finding | None) -> list[Finding]:
    """Return that a linear model on the frozen checkpoint, which is cheaper, is as good or better.

    ``compared`` is the comparison with words: of a model that is no better than they are, only a better one
    is worth a word.
    """
    is_good = compared is None or compared.severity == "good"
    for comparison in unbeaten(run, metric):
        if comparison.name != FROZEN_MODEL or not (is_good or comparison.is_worse):
            continue
        sentence = (
            f"The model {comparison.verb} {comparison.title}, which is cheaper:"
            f" {run.title_of(metric.name)} {comparison}."
        )
        advice = f"Use the cheaper one ({RUN} model.head={FROZEN_MODEL}), or get more data."
        severity: FindingSeverity = "warning" if comparison.is_worse else "note"
        return [Finding("not_above_frozen", severity, sentence, advice)]
    return []


def _not_above_uninformed(run: RunFacts, metric: Metric) -> Finding | None:
    """Return that the metric is not above predictions without the text.

    Their value is either known by convention, or measured: the majority baseline.
    """
    title = run.title_of(metric.name)
    low_key, high_key = interval_keys(metric)
    low = run.evaluated.get(low_key)
    if metric.uninformed is not None and low is not None and as_shown(low) <= metric.uninformed:
        sentence = (
            f"{title} is not clearly above {metric.uninformed:g}, that of predictions without the text:"
            f" {run.evaluated[metric.name]:.3f}, 95 % interval {low:.3f} to {run.evaluated[high_key]:.3f}."
        )
        return Finding("not_above_uninformed", "bad", sentence, _learn_more(run))

    for comparison in unbeaten(run, metric):
        if comparison.name == MAJORITY:
            sentence = f"The model {comparison.verb} {comparison.title}: {title} {comparison}."
            return Finding("not_above_majority", "bad", sentence, _learn_more(run))
    return None


def _learn_more(run: RunFacts) -> str:
    """Return what to do about a model that is not above predictions without the text."""
    if run.word_pieces:
        return f"{LANGUAGE}."
    if run.is_frozen and not run.has_tried_both:
        return f"Fine-tune as well ({TRY_BOTH}), get more data, and {LOOK}."
    if run.is_frozen or run.overfits:  # more steps would not help
        return f"Get more data, {LARGER}, and {LOOK}."
    advice = f"Train longer ({run.longer}), and {LOOK}."
    if not run.is_fine_tuned:
        advice = f"Fine-tune a pretrained checkpoint ({OTHER_CHECKPOINT}). {advice}"
    return advice


def _instead(run: RunFacts, best: Comparison) -> str:
    """Return what to do about a simple model, of words or of the cosine, that is not beaten."""
    if best.model == 1:
        return "Nothing is left to gain on these rows: use the simpler model, or test on more rows."
    return f"{_learn_more(run)} Or use {best.title} alone."


def _unknown_language(run: RunFacts) -> Finding | None:
    """Return that the tokenizer was made for other texts, which neither more rows nor other labels change."""
    if not run.word_pieces:
        return None
    sentence = f"The tokenizer does not know the words of the texts: {run.word_pieces}."
    return Finding("unknown_language", "warning", sentence, f"{LANGUAGE}.")


# --- classes and labels


def _labels_per_row(run: RunFacts) -> Finding | None:
    """Return that rows get too many or too few labels, which macro F1 hides.

    What a target of precision or recall asks for (``train.thresholds``) is no fault.
    """
    actual = run.evaluated.get(LABELS_PER_ROW, 0.0)
    predicted = run.evaluated.get(PREDICTED_LABELS_PER_ROW, 0.0)
    thresholds = run.params.get("train.thresholds") or {}
    if thresholds.get("choose") in ("precision", "recall"):
        return None
    if predicted > MOST_TIMES * actual > 0:
        are = "wrong"
        measure = "precision"
    elif predicted * MOST_TIMES < actual:
        are = "missing"
        measure = "recall"
    else:
        return None
    sentence = f"A row gets {predicted:.2f} labels on average, and has {actual:.2f}: many are {are}."
    advice = (
        f"Look at the labels with the lowest {measure} in the table by label: they need more rows, other"
        " thresholds (train.thresholds), or are to be joined."
    )
    return Finding("labels_per_row", "bad", sentence, advice)


def _never_predicted(run: RunFacts, metric: Metric) -> Finding | None:
    never = int(run.evaluated.get(NEVER_PREDICTED, 0))
    predicted = int(run.evaluated.get(PREDICTED_CLASSES, 0))
    if not never or _has_collapsed(run, metric):
        return None

    prediction, classes = PREDICTION_TERMS[metric.kinds[0]]
    share = run.evaluated.get(MOST_PREDICTED, 0.0)
    advice = f"Get more rows of the {classes} without predictions, or join rare ones."
    if "macro_f1" in run.evaluated:
        advice += f" Or {LOWER}."
    elif not run.params.get("train.class_weights"):
        advice += " Or try train.class_weights=balanced."
    sentence = (
        f"{never} of {never + predicted} {classes} are never predicted; {share:.0%} of the rows get the same"
        f" {prediction}."
    )
    return Finding("never_predicted", "warning", sentence, advice)


# --- the training


def _chosen_head(run: RunFacts, metric: Metric) -> Finding | None:
    """Return a note about the model that ``model.head: auto`` has chosen."""
    frozen = run.training.get("frozen_calibrated_loss")
    tuned = run.training.get("tuned_calibrated_loss")
    if run.params.get("model.head") != "auto" or frozen is None or tuned is None:
        return None

    chosen = "the fine-tuned one"
    share = run.training.get("head_tuned_share", 1)
    if run.is_frozen:
        chosen = "the linear one"
    elif share < 1:
        chosen = f"an average of both, {share:.0%} fine-tuned"
    reason = ""
    if run.training.get("head_by_metric"):
        reason = "; its metric is clearly better"
    sentence = (
        f"Validation has chosen {chosen}: loss {frozen:.3f} with the linear model on the frozen checkpoint,"
        f" {tuned:.3f} with the fine-tuned one{reason}."
    )
    frozen_score = run.training.get(f"frozen_{metric.name}")
    tuned_score = run.training.get(f"tuned_{metric.name}")
    if frozen_score is not None and tuned_score is not None:
        sentence += f" {run.title_of(metric.name)} there: {frozen_score:.3f} and {tuned_score:.3f}."
    return Finding("chosen_head", "note", sentence)


def _diverged(run: RunFacts) -> Finding | None:
    losses = run.losses.get("loss", ())
    if len(losses) < 4:
        return None
    # Single losses are noisy: compare the means of the first quarter and the last.
    size = len(losses) // 4
    first = fmean(losses[:size])
    last = fmean(losses[-size:])
    if last <= first * (1 - CLEAR_LOSS):
        return None
    sentence = f"The training loss does not fall: {first:.3f} at first, {last:.3f} at the end."
    return Finding("loss_does_not_fall", "warning", sentence, "Lower train.learning_rate.")


def _still_improving(run: RunFacts) -> Finding | None:
    """Return that the last evaluation on validation was clearly the best."""
    name, metric = run.validated
    losses = run.validation.get("loss", ())
    steps = run.validation.get("step", ())
    if len(steps) < 2:
        return None
    is_best = as_shown(metric[-1]) > as_shown(max(metric[:-1]))
    if not is_best or losses[-1] > min(losses[:-1]) * (1 - STILL_FALLS):
        return None
    changes = []
    for column in dict.fromkeys((name, "loss")):
        values = run.validation[column]
        changes.append(f"{column} {values[-2]:.3f} to {values[-1]:.3f}")
    sentence = (
        f"Validation was still improving at the last step: {', '.join(changes)} since step {steps[-2]:.0f}."
    )
    return Finding("still_improving", "warning", sentence, f"Train longer: {run.longer}.")


def _overfitting(run: RunFacts) -> Finding | None:
    if not run.overfits:
        return None
    losses = run.validation["loss"]
    best = list(losses).index(min(losses))
    best_step = run.validation["step"][best]
    sentence = (
        f"The model overfits since step {best_step:.0f}: the validation loss rises from {losses[best]:.3f} to"
        f" {losses[-1]:.3f}, the training loss falls."
    )

    if run.params.get("train.keep", "best") == "best":
        return Finding("overfitting", "note", sentence, "The weights of the best evaluation were kept.")
    if run.training.get("head_tuned_share", 1) < 1:
        advice = "Validation has chosen weights that are nearer to the linear start."
        return Finding("overfitting", "note", sentence, advice)
    return Finding("overfitting", "warning", sentence, "Set train.keep=best.")


# --- the rows


def leaks(run: RunFacts, metric: Metric) -> Finding | None:
    """Return the metric that decides without leaked rows, and whether the metric of all rows is above it.

    Leaked rows repeat or resemble a row of an earlier split. ``None`` if there is no leaked row, or no other
    row.
    """
    keys = clean_keys(metric)
    if not all(key in run.evaluated for key in keys):
        return None
    without, low, high = (run.evaluated[key] for key in keys)
    leaked = int(run.evaluated[LEAKED_ROWS])
    sentence = (
        f"{leaked:,} of {run.rows:,} rows ({leaked / run.rows:.1%}) repeat or resemble a row of an earlier"
        f" split. {run.title_of(metric.name)} without such rows: {without:.3f} (95 % interval {low:.3f} to"
        f" {high:.3f})."
    )
    every = run.evaluated[metric.name]
    if as_shown(every) <= as_shown(high):
        return Finding("leaks", "note", sentence)
    sentence += f" Of all rows it is higher: {every:.3f}."
    if run.is_by_time:
        return Finding("leaks", "note", sentence, "By time, such rows are there when the model is used, too.")
    advice = "Trust the metric without them; docs/data-checks.md says how to leave them out."
    return Finding("leaks", "warning", sentence, advice)


# --- the exported models, and the largest errors


def exported_models(comparison: ComparisonRecord) -> Iterator[Finding]:
    """Yield what a user should know: no published model, or a rounded one left out or published in doubt."""
    for precision, model in comparison.models.items():
        if model.violations and model.required:
            reasons = "; ".join(model.violations)
            sentence = f"No new model is published, because {precision} failed its comparison: {reasons}."
            yield Finding("nothing_published", "bad", sentence, EARLIER_MODEL)
            return

    for precision, model in comparison.models.items():
        if model.violations:
            reasons = "; ".join(model.violations)
            sentence = (
                f"The {precision} model is not published, because it differs too much from the trained one:"
                f" {reasons}."
            )
            advice = "The fp32 model is published, and predicts the same as the trained one."
            yield Finding("left_out", "warning", sentence, advice)
        elif model.unclear:
            reasons = "; ".join(model.unclear)
            sentence = (
                f"The {precision} model is published, but these rows do not show that it is good enough:"
                f" {reasons}."
            )
            yield Finding(
                "published_in_doubt", "note", sentence, "fp32 predicts the same as the trained model."
            )


def judge_errors(confidences: Sequence[float], errors: Sequence[float]) -> str:
    """Return what the most confident errors are; empty without errors.

    They are often wrong labels only where the model is nearly always right: the errors of an unsure model are
    its own mistakes.

    Args:
        confidences: Confidence of all predictions.
        errors: Confidence of the wrong predictions.
    """
    if not errors:
        return ""
    sure = sum(confidence >= CONFIDENT for confidence in confidences)
    wrong = sum(confidence >= CONFIDENT for confidence in errors)
    if not wrong:
        # rounded up, the highest confidence would be one of which the model is sure
        highest = math.floor(100 * max(errors))
        return f"The model is sure of none of them: its highest confidence is {highest}%."

    outcome = "it is too sure of itself"
    if 1 - wrong / sure >= CONFIDENT:
        outcome = "the errors there are often wrong labels"
    return (
        f"Of {sure:,} predictions with a confidence of at least {CONFIDENT:.0%}, {sure - wrong:,} are right,"
        f" {wrong:,} wrong: {outcome}."
    )


# --- what to try next


def next_steps(run: RunFacts) -> list[tuple[str, str]]:
    """Return commands that run as printed in a project with the result, each with its purpose.

    What a finding advises is not repeated.
    """
    steps = []
    rate = run.params.get("train.learning_rate")
    if rate and not run.is_frozen:
        rates = f"train.learning_rate={rate / 2:.2g},{rate * 2:.2g}"
        steps.append((f"dvc exp run --queue -S {rates} train", "queue half and twice the learning rate"))
        steps.append(("dvc exp run --run-all && tuneline experiments", "train them, and compare them"))
    steps.append((REVIEW, "look at the labels that are probably wrong"))
    return steps
