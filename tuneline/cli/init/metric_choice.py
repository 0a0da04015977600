"""The metric that suits the labels, what the test rows show by it.

Of accuracy, a rare class is a small part: with 5 % positives, the majority has 0.95, and two models that find
60 % and 90 % of the positives differ by 0.015. ``benchmarks/metric_power.py`` draws pairs of models that
differ, with 1,000 test rows: at 5 % positives, accuracy shows the difference in 37 % of the draws, Matthews
correlation in 44 %; from 20 % positives on they are within 2 points of each other. Of several classes, F1
counts a rare one that is never predicted, at a price: it shows other differences less often than accuracy.
"""

import math
from collections import Counter

import numpy as np

from tuneline.columns.choice import ColumnChoice
from tuneline.columns.profiles import Column
from tuneline.metrics.table import metrics_for, primary_metric
from tuneline.params.section import FunctionName
from tuneline.tasks import TASKS
from tuneline.words.titles import title_of

RARE = 0.4
"""Share of its even share of the rows below which a class is rare: 20 % of the rows with two classes."""
RARE_CLASSES = 0.1
"""Share of the classes, the ones with the fewest rows, that are rare where classes are not balanced.

One class suffices up to ten classes; of many, a few are always rare.
"""
TYPICAL = 0.8
"""Accuracy, or correlation; ``test_note`` says how exactly a test measures it."""
DISAGREEMENT = 0.2
"""Share of rows on which two models of about the accuracy ``TYPICAL`` usually differ."""
DEVIATIONS = 1.96
"""Standard errors on each side of a 95 % interval."""


def choose_metric(
    classes: Counter[str], decision: ColumnChoice, metric: str, *, current: bool
) -> tuple[str, str]:
    """Return ``train.metric``, and the reason; empty where nothing was to be chosen.

    Args:
        classes: Rows of each class; empty where a row has no single class.
        decision: The task.
        metric: ``train.metric`` now.
        current: True if the parameters are for this data already; then a metric that suits the task stays.
    """
    kind = TASKS[decision.task].kind
    name, reason = primary_metric(kind).name, ""
    if classes:
        name, reason = metric_of_classes(classes)
    suitable = {candidate.name for candidate in metrics_for(kind) if candidate.validated}
    is_suitable = metric in suitable or FunctionName.matches(metric)
    if not current or metric == name or not is_suitable:
        return name, reason
    return metric, f"train.metric stays {metric}, as in params.yaml; for new data, init writes {name}"


def metric_of_classes(classes: Counter[str]) -> tuple[str, str]:
    """Return the metric of classes with so many rows, and the reason. A class of one row is often a typo."""
    totals = Counter({name: rows for name, rows in classes.items() if rows > 1}) or classes
    rows = totals.total()
    fewest_rows = np.quantile(np.array(list(totals.values())), RARE_CLASSES, method="inverted_cdf")
    if fewest_rows >= RARE * rows / len(totals):
        return "accuracy", ""
    largest, most = totals.most_common()[0]
    rarest, fewest = totals.most_common()[-1]
    name, why = "f1", "the mean over the classes, in which each class counts the same"
    if len(totals) == 2:
        name, why = "matthews_correlation", "0 for predictions without the text and 1 without errors"
    reason = (
        f"train.metric: {name} ({title_of(name)}: {why}), because the classes are not balanced: {rarest!r} is"
        f" {fewest / rows:.1%} of the rows, and predicting {largest!r} has an accuracy of {most / rows:.3f}."
    )
    return name, reason


def rare_class_last(classes: Counter[str], label: Column) -> list[str] | None:
    """Return the names of two classes, the rare one last, where their order would be another one.

    F1, average precision and the curves of two classes are of class 1, the second name, and names are sorted:
    of ``fraud`` and ``ok`` they would be of ``ok``. Numbers keep their order. ``None``: the usual order is
    right.
    """
    if len(classes) != 2 or metric_of_classes(classes)[0] == "accuracy" or label.is_numeric:
        return None
    frequent, rare = [name for name, _ in classes.most_common()]
    return None if frequent < rare else [frequent, rare]


def test_note(rows: int, decision: ColumnChoice, metric: str) -> str:
    """Return how exactly so many test rows measure the metric that decides; there is at least one row."""
    if metric == "accuracy":
        # Only the rows on which two models differ tell them apart.
        half = DEVIATIONS * math.sqrt(TYPICAL * (1 - TYPICAL) / rows)
        smallest = DEVIATIONS * math.sqrt(DISAGREEMENT / rows)
        return (
            f"With {rows:,} rows, test measures an accuracy of {TYPICAL} to within {half:.3f}, and tells two"
            f" models apart that differ by {smallest:.3f} or more."
        )
    if not TASKS[decision.task].has_classes:
        half = DEVIATIONS * (1 - TYPICAL**2) / math.sqrt(rows)  # of Pearson's r
        return f"With {rows:,} rows, test measures a correlation of {TYPICAL} to within {half:.2f}."
    return f"With {rows:,} rows, test measures a class or label the less exactly, the fewer rows it has."
