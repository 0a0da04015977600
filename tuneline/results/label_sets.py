"""What macro F1 does not say of a model of several labels: how many it gives, and how good all decisions are.

Macro F1 counts each label once, however rare it is. A model may be above the simple models by it, and give
most rows labels that they do not have.
"""

from collections.abc import Mapping
from typing import Any

from tuneline.evaluation.keys import (
    LABELS_PER_ROW,
    MAJORITY,
    PREDICTED_LABELS_PER_ROW,
    baseline_key,
    interval_keys,
)
from tuneline.evaluation.table import ALL_METRICS
from tuneline.metrics.table import Metric
from tuneline.results.findings import Finding, as_shown
from tuneline.results.titles import SIMPLE_MODEL_TITLES, title_of

MICRO = ALL_METRICS["micro_f1"]
MOST_TIMES = 1.5
"""Times the labels of a row that a model may give, or fewer by the same factor."""
CHOOSE = "choose the thresholds on validation (train.thresholds.choose=f1)"
"""Advice to a model whose thresholds are 0.5."""


def faults_of_sets(
    evaluated: Mapping[str, float], deciding: Metric, rule: Mapping[str, Any], rivals: Mapping[str, str]
) -> list[Finding]:
    """Return what is wrong with the predicted sets, the most important first.

    Args:
        evaluated: ``metrics/evaluate.json``.
        deciding: The metric that the model is judged by.
        rule: ``train.thresholds``. What a target of precision or recall asks for is no fault.
        rivals: Titles of the simple models to compare with, by name.
    """
    candidates = [_labels_per_row(evaluated, rule)]
    if deciding.name != MICRO.name:
        candidates.append(_micro_f1(evaluated, deciding, rivals))
    if rule["choose"] != "recall":
        candidates.append(_majority(evaluated, rule))
    return [finding for finding in candidates if finding is not None]


def _labels_per_row(evaluated: Mapping[str, float], rule: Mapping[str, Any]) -> Finding | None:
    actual = evaluated.get(LABELS_PER_ROW, 0.0)
    predicted = evaluated.get(PREDICTED_LABELS_PER_ROW, 0.0)
    sentence = f"The model gives a row {predicted:.2f} labels on average, and a row has {actual:.2f}"
    if predicted > MOST_TIMES * actual > 0 and rule["choose"] != "recall":
        return Finding("too many labels", "bad", f"{sentence}: many are wrong.", _ask_for("precision", rule))
    if predicted * MOST_TIMES < actual and rule["choose"] != "precision":
        return Finding("too few labels", "bad", f"{sentence}: many are missing.", _ask_for("recall", rule))
    return None


def _ask_for(measure: str, rule: Mapping[str, Any]) -> str:
    """Return how the labels get a higher ``precision`` or ``recall``."""
    look = f"look at the labels with the lowest {measure} in the table by label"
    if rule["choose"] == "half":
        return f"First {CHOOSE}, then {look}."
    if rule["choose"] == measure:
        return f"Raise train.thresholds.target (it was {rule['target']:g}), and {look}."
    command = f"train.thresholds.choose={measure} train.thresholds.target=0.7"
    return f"Ask for {measure} ({command}), and {look}: they need more rows, or are to be joined."


def _micro_f1(evaluated: Mapping[str, float], deciding: Metric, rivals: Mapping[str, str]) -> Finding | None:
    """Return that a simple model has a higher micro F1, by more than half the interval of macro F1.

    Micro F1 is of more decisions, so chance moves it less.
    """
    values = {}
    for name in rivals:
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
    sentence = (
        f"Over all decisions the model is worse than {rivals[best]}: {title_of(MICRO.name)}"
        f" {evaluated[MICRO.name]:.3f} against {values[best]:.3f}. It loses on frequent labels."
    )
    advice = f"Use {rivals[best]} if frequent labels count, or get more data; the table by label shows both."
    return Finding("micro F1", "bad", sentence, advice)


def _majority(evaluated: Mapping[str, float], rule: Mapping[str, Any]) -> Finding | None:
    """Return that one set of labels for all rows would be as good, by whole rows or by single decisions."""
    reasons = []
    exact = ALL_METRICS["subset_accuracy"]
    if _not_above_majority(evaluated, exact):
        own, majority = evaluated[exact.name], evaluated[str(baseline_key(exact, MAJORITY))]
        reasons.append(f"{own:.1%} of the rows get exactly their labels, {majority:.1%} would")
    wrong = ALL_METRICS["hamming_loss"]
    if _not_above_majority(evaluated, wrong):
        own, majority = evaluated[wrong.name], evaluated[str(baseline_key(wrong, MAJORITY))]
        reasons.append(f"{own:.2%} of all decisions are wrong, {majority:.2%} would be")
    if not reasons:
        return None

    sentence = (
        f"The model is not better than {SIMPLE_MODEL_TITLES[MAJORITY]}, the same set of labels for all rows:"
        f" {'; '.join(reasons)}."
    )
    if evaluated.get(PREDICTED_LABELS_PER_ROW, 0.0) > evaluated.get(LABELS_PER_ROW, 0.0):
        advice = _ask_for("precision", rule)
    else:
        advice = "Get more rows of the rare labels, or join them."
    return Finding("not above the majority", "bad", sentence, advice)


def _not_above_majority(evaluated: Mapping[str, float], metric: Metric) -> bool:
    """Return True if a metric is not better than that of the majority; False without one of them."""
    value = evaluated.get(metric.name)
    majority = evaluated.get(str(baseline_key(metric, MAJORITY)))
    if value is None or majority is None:
        return False
    if metric.greater_is_better:
        return value <= majority
    return value >= majority
