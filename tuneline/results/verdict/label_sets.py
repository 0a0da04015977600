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
from tuneline.results.verdict.facts import RunFacts, rivals
from tuneline.results.verdict.finding import Finding, as_shown

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
    """Return that one set of labels for all rows would be as good, by whole rows or by single decisions."""
    numbers = {}
    for name in ("subset_accuracy", "hamming_loss"):
        metric = ALL_METRICS[name]
        value = run.evaluated.get(metric.name)
        majority = run.evaluated.get(str(baseline_key(metric, MAJORITY)))
        if value is None or majority is None:
            continue
        is_above = value > majority if metric.greater_is_better else value < majority
        if not is_above:
            numbers[name] = (value, majority)
    if not numbers:
        return None

    evaluated = run.evaluated
    if evaluated.get(PREDICTED_LABELS_PER_ROW, 0.0) > evaluated.get(LABELS_PER_ROW, 0.0):
        return _asking("not_above_one_set", "precision", numbers, run)
    return Finding("not_above_one_set", "bad", numbers, ("more_rows_of_rare_labels",))
