"""The words of the verdict: a sentence for each code of a finding, and for each code of advice.

An entry is a template, which is filled with the numbers of the finding, or a function of them where the
sentence depends on one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

from tuneline.evaluation.keys import MAJORITY
from tuneline.paths import ONNX
from tuneline.results.verdict.facts import Comparison, Finding, FindingSeverity, RunFacts
from tuneline.results.verdict.rules import REVIEW, RUN, TRY_BOTH, NextStep
from tuneline.words.titles import PREDICTION_TERMS, SIMPLE_MODEL_TITLES, PredictionTerms, title_of

FindingNumbers = SimpleNamespace
"""The numbers of a finding as attributes."""
Phrasing = str | Callable[[FindingNumbers], str]

EARLIER_MODEL = f"`dvc checkout {ONNX}` brings back the one of dvc.lock."
OTHER_CHECKPOINT = "tuneline init FILE --checkpoint NAME"
PHRASES = {
    "earlier_model": EARLIER_MODEL,
    "try_both": TRY_BOTH,
    "look": f"look at the labels ({REVIEW})",
    "larger": f"fine-tune a larger checkpoint ({OTHER_CHECKPOINT})",
    "other_checkpoint": OTHER_CHECKPOINT,
}
"""What several sentences say, by the name in their templates."""


@dataclass(frozen=True)
class Statement:
    """A finding in words; ``advice`` is empty if there is nothing to do."""

    severity: FindingSeverity
    sentence: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}".strip()


def statement(finding: Finding) -> Statement:
    """Return what is said of a finding."""
    numbers = FindingNumbers(**finding.numbers)
    if "metric" in finding.numbers:
        numbers.metric_title = title_of(numbers.metric.name)
    sentence = _filled(SENTENCES[finding.code], numbers)
    if finding.of_clean_rows:
        sentence = f"Without rows that repeat or resemble a row of an earlier split: {sentence}"
    advice = " ".join(_filled(ADVICE[code], numbers) for code in finding.advice)
    return Statement(finding.severity, sentence, advice)


def statements(findings: Sequence[Finding]) -> list[Statement]:
    """Return what is said of findings, in their order."""
    return [statement(finding) for finding in findings]


def evidence(run: RunFacts) -> str:
    """Return the number of rows, and of those that are independent, in words."""
    return _evidence(FindingNumbers(**run.counts))


def purpose(step: NextStep) -> str:
    """Return what a next step is for, and how long it takes."""
    if step.seconds is None:
        return PURPOSES[step.code]
    if step.seconds < 90:
        return f"{PURPOSES[step.code]} (about {step.seconds:.0f} s)"
    return f"{PURPOSES[step.code]} (about {step.seconds / 60:.0f} min)"


def _filled(words: Phrasing, numbers: FindingNumbers) -> str:
    if isinstance(words, str):
        return words.format(**PHRASES, **vars(numbers))
    return words(numbers)


def _terms(n: FindingNumbers) -> PredictionTerms:
    return PREDICTION_TERMS[n.metric.kinds[0]]


def _unit(n: FindingNumbers) -> str:
    return unit_of_rows(n.rows, n.independent, n.grouped)


def _evidence(n: FindingNumbers) -> str:
    return rows_in_words(n.rows, n.independent, n.grouped)


def _compared(comparison: Comparison) -> str:
    """Return both values and the interval of their difference."""
    return (
        f"{comparison.model:.3f} against {comparison.simple:.3f}, 95 % interval of the difference"
        f" {comparison.low:+.3f} to {comparison.high:+.3f}"
    )


# --- sentences ---


def _one_prediction(n: FindingNumbers) -> str:
    return (
        f"The model predicts the same {_terms(n).prediction} for all {n.rows:,} rows: it has learned nothing"
        f" from the texts ({n.metric_title} {n.value:.3f}, the majority baseline {n.majority:.3f})."
    )


def _undecided_few(n: FindingNumbers) -> str:
    return (
        f"These rows cannot tell how good the model is: {_evidence(n)}, too few for an interval"
        f" ({n.metric_title} {n.value:.3f})."
    )


def _not_above_simple_model(n: FindingNumbers) -> str:
    verb = "is worse than" if n.best.is_worse else "is not clearly better than"
    sentence = f"The model {verb} {n.best.title}: {n.metric_title} {_compared(n.best)}."
    if n.others:
        titles = " and ".join(comparison.title for comparison in n.others)
        sentence += f" Nor is it better than {titles}."
    return sentence


def _not_above_majority(n: FindingNumbers) -> str:
    above = "above" if n.best.is_worse else "clearly above"
    return f"{n.metric_title} is not {above} {n.best.title}: {_compared(n.best)}."


def _above_simple_models(n: FindingNumbers) -> str:
    value = f"{n.value:.3f}"
    if n.low is not None:
        value += f" (95 % interval {n.low:.3f} to {n.high:.3f})"
    rival = n.best.title
    if n.compared > 1:
        rival += ", the best of the simple models"
    difference = f"{n.best.simple:.3f}, difference {n.best.low:+.3f} to {n.best.high:+.3f}"
    return f"{n.metric_title} {value} on {_evidence(n)}, clearly above {rival} ({difference})."


def _good(n: FindingNumbers) -> str:
    return f"Good: {_above_simple_models(n)}"


def _never_predicted(n: FindingNumbers) -> str:
    verb = "is" if n.never == 1 else "are"
    return (
        f"{n.never} of {n.classes} {_terms(n).classes} {verb} never predicted; {n.share:.0%} of the rows get"
        f" the same {_terms(n).prediction}."
    )


def _chosen(n: FindingNumbers) -> str:
    chosen = "the linear one" if n.is_frozen else "the fine-tuned one"
    return (
        f"Validation has chosen {chosen}: loss {n.frozen:.3f} with the linear model on the frozen checkpoint,"
        f" {n.tuned:.3f} with the fine-tuned one"
    )


def _overfitting(n: FindingNumbers) -> str:
    since = f"step {n.step:.0f}"
    if n.epoch is not None:
        since = f"epoch {n.epoch:.2g}"
    return (
        f"The model overfits since {since}: the validation loss rises from {n.lowest:.3f} to {n.last:.3f},"
        " the training loss falls."
    )


def _leaks(n: FindingNumbers, one_row: str, several_rows: str) -> str:
    """Return the metric without the leaked rows, and their effect on it in the words for one or several."""
    verb = "repeat or resemble"
    effect = several_rows
    if n.leaked == 1:
        verb = "repeats or resembles"
        effect = one_row
    clean = ""
    if n.clusters_are_known and n.independent != n.rows:
        clean = f"; {n.independent:,} {_unit(n)}"
    return (
        f"{n.leaked:,} of {n.all_rows:,} rows ({n.leaked / n.all_rows:.1%}) {verb} a row of an earlier split."
        f" {n.metric_title} {_without(n)}: {n.without:.3f} (95 % interval {n.low:.3f} to"
        f" {n.high:.3f}{clean}). {effect}: {n.gain:+.3f} (95 % interval {n.gain_low:+.3f} to"
        f" {n.gain_high:+.3f})."
    )


def _without(n: FindingNumbers) -> str:
    return "without it" if n.leaked == 1 else "without them"


def _few_rows(n: FindingNumbers) -> str:
    return f"{n.independent:,} {_unit(n)} show only differences of more than about {n.half_width:.3f}."


def _not_above_one_set(n: FindingNumbers) -> str:
    return (
        f"The model is not better than {SIMPLE_MODEL_TITLES[MAJORITY]}, the same set of labels for all rows:"
        f" {n.value:.1%} of the rows get exactly their labels, {n.majority:.1%} would."
    )


def _because(sentence: str) -> Callable[[FindingNumbers], str]:
    """Return the words of a template that ends with reasons."""
    return lambda n: f"{sentence.format(precision=n.precision)}: {'; '.join(n.reasons)}."


SENTENCES: Mapping[str, Phrasing] = {
    # how good the model is
    "one_prediction": _one_prediction,
    "undecided_leaked": (
        "These rows cannot tell how good the model is: {leaked:,} of {rows:,} repeat or resemble a row of an"
        " earlier split, which it may know by heart ({metric_title} {value:.3f})."
    ),
    "undecided_few": _undecided_few,
    "not_above_uninformed": (
        "{metric_title} is not clearly above {metric.uninformed:g}, that of predictions without the text:"
        " {value:.3f}, 95 % interval {low:.3f} to {high:.3f}."
    ),
    "worse_than_majority": _not_above_majority,
    "not_above_majority": _not_above_majority,
    "worse_than_simple_model": _not_above_simple_model,
    "not_above_simple_model": _not_above_simple_model,
    "good": _good,
    "above_simple_models": _above_simple_models,
    # sets of labels
    "too_many_labels": (
        "The model gives a row {predicted:.2f} labels on average, and a row has {actual:.2f}: many are wrong."
    ),
    "too_few_labels": (
        "The model gives a row {predicted:.2f} labels on average, and a row has {actual:.2f}: many are"
        " missing."
    ),
    "worse_micro_f1": lambda n: (
        f"Over all decisions the model is worse than {SIMPLE_MODEL_TITLES[n.model]}: {n.metric_title}"
        f" {n.value:.3f} against {n.simple:.3f}. It loses on frequent labels."
    ),
    "not_above_one_set": _not_above_one_set,
    # classes and thresholds
    "never_predicted": _never_predicted,
    # the training
    "chosen_by_loss": lambda n: f"{_chosen(n)}.",
    "chosen_by_metric": lambda n: f"{_chosen(n)}; its {n.metric_title} is clearly better.",
    "chosen_by_default": lambda n: (
        f"{_chosen(n)}, which is no clear difference: without one, the linear model is taken for pairs, and"
        " the fine-tuned one for single texts."
    ),
    "loss_not_finite": "The training loss is not a finite number at step {step:.0f}.",
    "loss_rises": "The training loss rises: from {lowest:.3f} to {last:.3f} at the end.",
    "loss_does_not_fall": "The training loss does not fall: {first:.3f} at first, {last:.3f} at the end.",
    "still_improving": (
        "Validation was still improving at the last step: {name} {before:.3f} to {value:.3f}, loss"
        " {loss_before:.3f} to {loss:.3f} since step {step:.0f}."
    ),
    "overfitting": _overfitting,
    # the rows
    "leaks_raise": lambda n: _leaks(n, "This row raises it", "They raise it"),
    "leaks_lower": lambda n: _leaks(n, "This row lowers it", "They lower it"),
    "leaks_unclear": lambda n: _leaks(
        n, "This row does not clearly change it", "They do not clearly change it"
    ),
    "few_rows": _few_rows,
    # the exported models
    "nothing_published": _because("There is no published model, because {precision} failed its comparison"),
    "left_out": _because(
        "The {precision} model is not published, because it differs too much from the trained one"
    ),
    "published_in_doubt": _because(
        "The {precision} model is published, but these rows do not show that it is good enough"
    ),
    # the largest errors; rounded up, the highest confidence would be one of which the model is sure
    "errors_unsure": lambda n: (
        f"The model is sure of none of them: its highest confidence is {math.floor(100 * n.highest)}%."
    ),
    "errors_are_wrong_labels": (
        "Of {sure:,} predictions with a confidence of at least {confident:.0%}, {right:,} are right,"
        " {wrong:,} wrong: the errors there are often wrong labels."
    ),
    "errors_too_sure": (
        "Of {sure:,} predictions with a confidence of at least {confident:.0%}, {right:,} are right,"
        " {wrong:,} wrong: it is too sure of itself."
    ),
}


# --- advice ---

REMEDIES = {
    "choose_thresholds": "choose the thresholds on validation (train.thresholds.choose=f1)",
    "less_precision": "ask for less precision (train.thresholds.target was {target:g})",
    "weights": "try train.class_weights=balanced",
}
"""How more classes are predicted."""


def _remedy(n: FindingNumbers) -> str:
    return REMEDIES[n.remedy].format(target=n.target)


def _lower_rate(n: FindingNumbers) -> str:
    if not n.rate:
        return "with a lower learning rate"
    return f"with a lower learning rate (it was {n.rate:g})"


def _lower_the_rate(n: FindingNumbers) -> str:
    if n.lower is None:
        return "Lower the learning rate."
    return f"Lower the learning rate (train.learning_rate={n.lower:.1g})."


def _more_rows_of_classes(n: FindingNumbers) -> str:
    remedy = ""
    if n.remedy is not None:
        remedy = f", {_remedy(n)},"
    return f"Get more rows of the {_terms(n).classes} without predictions{remedy} or join rare ones."


def _with_command(best: Comparison) -> str:
    """Return the command that trains a simple model, in brackets; empty if none does."""
    if best.name != "frozen":
        return ""
    return f" ({RUN} model.head=frozen)"


def _look(n: FindingNumbers) -> str:
    return f"look at the labels with the lowest {n.measure} in the table by label"


ADVICE: Mapping[str, Phrasing] = {
    # how good the model is
    "first_thresholds": lambda n: f"First {_remedy(n)}: no probability is above a threshold.",
    "lower_rate": lambda n: f"Train {_lower_rate(n)}.",
    "longer_or_lower_rate": lambda n: f"Train longer ({n.longer}) or {_lower_rate(n)}.",
    "or_weights": "Or try train.class_weights=balanced.",
    "divide": (
        "Divide the data by what such rows have in common (data.split.by: a customer, a document), so that"
        " none of it is in two splits, or leave the copies out (docs/data-checks.md), and train again."
    ),
    "test_on_more": lambda n: f"Test on more {_unit(n)}.",
    "tune_too_and_look": "Fine-tune as well ({try_both}), get more data, and {look}.",
    "both_learned_too_little": (
        "Neither the fine-tuned model nor the linear one has learned enough from these rows: get more data,"
        " {larger}, and {look}."
    ),
    "more_data_than_steps": (
        "It overfits, so more steps would not help: get more data, {larger}, and {look}."
    ),
    "tune_a_checkpoint": "Fine-tune a pretrained checkpoint ({other_checkpoint}).",
    "train_longer_and_look": "Train longer ({longer}), and {look}.",
    # instead of a model that is not better than a simple one
    "nothing_to_gain": lambda n: (
        f"Nothing is left to gain on these rows: use the simpler model{_with_command(n.best)}, or test on"
        " more rows."
    ),
    "use_simple_model": lambda n: f"Use {n.best.title}{_with_command(n.best)}, or get more data.",
    "use_simple_model_or_tune": lambda n: (
        f"Use {n.best.title}{_with_command(n.best)}, or fine-tune a pretrained checkpoint."
    ),
    "tune_or_use_simpler": (
        "Fine-tune a pretrained checkpoint ({other_checkpoint}), get more data, or use the simpler model."
    ),
    "tuning_was_no_better": (
        "Fine-tuning was tried, too, and was no better: get more data, {larger}, or use the simpler model."
    ),
    "tune_too_or_use_simpler": ("Fine-tune as well ({try_both}), get more data, or use the simpler model."),
    "larger_or_use_simpler": "Get more data, {larger}, or use the simpler model.",
    "validation_chose_this": ("Validation has chosen this one of the two: get more data, or {larger}."),
    "let_validation_decide": lambda n: (
        f"Let validation decide between the two ({TRY_BOTH}), or use the simpler"
        f" model{_with_command(n.best)}."
    ),
    # sets of labels
    "choose_thresholds_first": lambda n: f"First {REMEDIES['choose_thresholds']}, then {_look(n)}.",
    "raise_target": lambda n: f"Raise train.thresholds.target (it was {n.target:g}), and {_look(n)}.",
    "ask_for_measure": lambda n: (
        f"Ask for {n.measure} (train.thresholds.choose={n.measure} train.thresholds.target=0.7), and"
        f" {_look(n)}: they need more rows, or are to be joined."
    ),
    "simple_for_frequent_labels": lambda n: (
        f"Use {SIMPLE_MODEL_TITLES[n.model]} if frequent labels count, or get more data; the table by label"
        " shows both."
    ),
    "more_rows_of_rare_labels": "Get more rows of the rare labels, or join them.",
    # classes and thresholds
    "more_rows_of_classes": _more_rows_of_classes,
    # the training
    "lower_the_rate": _lower_the_rate,
    "train_longer": "Train longer: {longer}.",
    "distrust_confidence": (
        "Its {name} is as good as before, its confidence is too high: do not trust that."
    ),
    "keep_best": "Set train.keep=best.",
    "later_weights_kept": "The weights that were kept are of a later step: do not trust their confidence.",
    "earlier_weights_kept": "The weights before that were kept.",
    "fewer_epochs": "train.epochs={epochs} takes less time.",
    # the rows
    "trust_clean_metric": lambda n: (
        f"Trust the metric {_without(n)}; docs/data-checks.md says how to leave them out."
    ),
    "rows_needed": lambda n: (
        f"A difference as small as this one, {n.difference:.3f}, needs about {n.needed:,} {_unit(n)}."
    ),
    # the exported models
    "checkout_earlier_model": "{earlier_model}",
    "fp32_is_published": "The fp32 model is published, and predicts the same as the trained one.",
    "fp32_is_the_same": "fp32 predicts the same as the trained model.",
}


PURPOSES: Mapping[str, str] = {
    "review": "look at the labels that are probably wrong",
    "tune_too": "fine-tune as well, and publish the better one",
    "fit_frozen_too": "fit a linear model to the frozen checkpoint, too, and publish the better one",
    "twice_as_long": "train twice as long",
    "sweep": "compare nine variants of rate and steps",
    "half_rate": "half the learning rate",
}


def unit_of_rows(rows: int, independent: int, grouped: bool) -> str:
    """Return what independent rows are, in words.

    Args:
        rows: Number of rows.
        independent: Number of their clusters.
        grouped: True if the data is divided by a column of groups (``data.split.by``).
    """
    if independent == rows:
        return "rows"
    if grouped:
        return "groups"
    return "distinct texts"


def rows_in_words(rows: int, independent: int, grouped: bool) -> str:
    """Return the number of rows, and of those that are independent; arguments as of ``unit_of_rows``."""
    if independent == rows:
        return f"{rows:,} rows"
    return f"{rows:,} rows, {independent:,} {unit_of_rows(rows, independent, grouped)}"
