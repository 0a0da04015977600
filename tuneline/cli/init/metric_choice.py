"""The metric that suits the labels: which one decides in the project, and why.

Of accuracy, a rare class is a small part: with 5 % positives, the majority has 0.95, and two models that find
60 % and 90 % of the positives differ by 0.015. ``benchmarks/metric_power.py`` draws pairs of models that
differ, with 1,000 test rows: at 5 % positives, accuracy shows the difference in 37 % of the draws, Matthews
correlation in 44 %; from 20 % positives on they are within 2 points of each other. Of several classes, F1
counts a rare one that is never predicted, at a price: it shows other differences less often than accuracy.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from tuneline.cli.init.planning import Plan
from tuneline.metrics.judging import scale_numbers
from tuneline.metrics.table import metrics_for, primary_metric
from tuneline.params.section import FunctionName
from tuneline.paths import SPLITS
from tuneline.tasks import TASKS
from tuneline.words.titles import title_of

RARE = 0.4
"""Share of its even share of the rows below which a class is rare: 20 % of the rows with two classes."""
RARE_CLASSES = 0.1
"""Share of the classes, the ones with the fewest rows, that are rare where classes are not balanced.

One class suffices up to ten classes; of many, a few are always rare.
"""


@dataclass(frozen=True)
class MetricChoice:
    """``train.metric``, and a line with the reason for the user; empty where nothing was to be chosen."""

    name: str
    reason: str = ""


def choose_metric(plan: Plan, metric: str, current: bool) -> MetricChoice:
    """Return the metric of a plan.

    Args:
        plan: What will be written.
        metric: ``train.metric`` now.
        current: True if the parameters are for this data already; then a metric that suits the task stays.
    """
    kind = TASKS[plan.decision.task]
    suited = MetricChoice(primary_metric(kind.metric_kind).name)
    if kind.one_class:
        suited = metric_of_classes(class_totals(plan), plan.counts["test"].classes)
    if not current or metric == suited.name:
        return suited

    # a metric that the user set for this data, or that an earlier version chose
    suitable = {candidate.name for candidate in metrics_for(kind.metric_kind) if candidate.validated}
    if metric not in suitable and not FunctionName.matches(metric):
        return suited
    reason = f"train.metric stays {metric}, as in params.yaml"
    if suited.reason:
        reason = f"! {reason}; for new data, init writes {suited.reason}"
    return MetricChoice(metric, reason)


def metric_of_classes(totals: Counter[str], tested: Counter[str]) -> MetricChoice:
    """Return the metric of classes, given the rows of each in all splits and in test."""
    rows = totals.total()
    even = rows / len(totals)
    counts = np.array(list(totals.values()))
    is_balanced = np.quantile(counts, RARE_CLASSES, method="inverted_cdf") >= RARE * even
    if is_balanced:
        return MetricChoice("accuracy")

    largest, most = totals.most_common()[0]
    rarest, fewest = totals.most_common()[-1]
    name = "f1"
    why = "the mean over the classes, in which each class counts the same, however few rows it has"
    if len(totals) == 2:
        name = "matthews_correlation"
        why = "it is 0 for predictions without the text and 1 without errors, whichever class is the rare one"
    reason = (
        f"train.metric: {name} ({title_of(name)}), because the classes are not balanced: {rarest!r}"
        f" is {fewest / rows:.1%} of the rows, and an accuracy of {most / rows:.3f} needs no more than"
        f" predicting {largest!r}; {why}. Test has {tested[rarest]:,} rows of {rarest!r}."
    )
    return MetricChoice(name, reason)


def rare_class_last(plan: Plan) -> list[str] | None:
    """Return the names of two classes, the rare one last, where their order would be another one.

    F1, average precision and the curves of two classes are of class 1, the second name, and names are sorted:
    of ``fraud`` and ``ok`` they would be of ``ok``. Numbers, and classes whose order the file declares, keep
    their order. ``None``: the usual order is right.
    """
    totals: Counter[str] = Counter()
    for counts in plan.counts.values():
        totals += counts.classes
    if not TASKS[plan.decision.task].one_class or len(totals) != 2:
        return None
    is_rare = metric_of_classes(totals, totals).name != "accuracy"
    frequent, rare = [name for name, _ in totals.most_common()]
    label = next(profile for profile in plan.profiles if profile.name == plan.decision.label_column)
    if not is_rare or frequent < rare or label.is_numeric:
        return None
    return [frequent, rare]


def class_totals(plan: Plan) -> Counter[str]:
    """Return the rows of each class in all splits.

    Classes that test does not have are left out, if it has any: they cannot be measured, and a class of a
    single row is often a typo.
    """
    totals: Counter[str] = Counter()
    for split in SPLITS:
        totals += plan.counts[split].classes
    tested = plan.counts["test"].classes
    if len(tested) < 2:
        return totals
    return Counter({name: rows for name, rows in totals.items() if name in tested})


def order_notes(plan: Plan) -> list[str]:
    """Return what a regression would do, where the classes are numbers that can be ordered."""
    decision = plan.decision
    names = sorted(plan.counts["train"].classes)
    if not TASKS[decision.task].one_class or scale_numbers(names) is None:
        return []
    names.sort(key=float)
    return [
        f"The labels are the numbers {names[0]} to {names[-1]}. As classes, {names[0]} for {names[-1]} is an"
        f" error like {names[-2]} for {names[-1]}; the mean absolute error (mae) says how far predictions are"
        " off. If their order has a meaning, as that of ratings, --task regression learns it: it predicts a"
        " number, also one between two labels, and is measured by Pearson's r and the mean absolute error."
        f" Write: tuneline init FILE --label {decision.label_column} --task regression"
    ]
