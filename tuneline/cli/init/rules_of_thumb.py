"""How many steps a task needs, and how exactly a test measures it, by kind of task."""

import math
from functools import singledispatch

from tuneline.metrics.table import Metric, primary_metric
from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.words.titles import title_of

LEAST_STEPS = 300
"""Optimizer steps without which few rows are not learnt, even of two classes (docs/benchmarks.md)."""
STEPS_PER_CLASS = 40
"""Optimizer steps for each class: about what 10 to 55 classes were measured to need (docs/benchmarks.md)."""
STEPS_OF_MANY_CLASSES = 2_000
"""Optimizer steps for many classes or labels: 20 to 55 were learnt in so many (docs/benchmarks.md)."""
TYPICAL = 0.8
"""Accuracy, or correlation; ``resolution`` says how exactly a test measures it."""
DISAGREEMENT = 0.2
"""Share of rows on which two models of about the accuracy ``TYPICAL`` usually differ."""
DEVIATIONS = 1.96
"""Standard errors on each side of a 95 % interval."""


@singledispatch
def least_steps(task: Task, classes: int) -> int:  # noqa: ARG001
    """Return the optimizer steps below which ``tuneline init`` gives fine-tuning more epochs.

    Args:
        task: The task; its names need not be known.
        classes: Number of classes, or labels, of the train split.
    """
    return LEAST_STEPS


@least_steps.register(Classification)
def _(_task: Classification, classes: int) -> int:
    """Return more steps for many classes, as few rows have each of them."""
    return min(max(LEAST_STEPS, STEPS_PER_CLASS * classes), STEPS_OF_MANY_CLASSES)


@least_steps.register(Multilabel)
def _(_task: Multilabel, _classes: int) -> int:
    """Return the steps of many classes, also for few labels: few rows may have one of them."""
    return STEPS_OF_MANY_CLASSES


@singledispatch
def resolution(task: Task, rows: str, independent: float, metric: Metric) -> str:
    """Return a sentence on how exactly a test measures the metric that decides.

    Args:
        task: The task; its names need not be known.
        rows: Its number of rows, in words.
        independent: Number of independent rows that they are worth.
        metric: The metric that decides.
    """
    raise NotImplementedError(task.kind)


@resolution.register(Classification)
def _(task: Classification, rows: str, independent: float, metric: Metric) -> str:
    """Return the half width of an interval of the accuracy, and the smallest difference that is seen.

    For another metric, which depends on the rows of each class, no figure is known beforehand.
    """
    if metric != primary_metric(task.metric_kind):
        return (
            f"With {rows}, test measures the metric that decides ({title_of(metric.name)}) the less exactly,"
            " the fewer rows a class has: its interval will say how exactly."
        )
    # Only the rows on which two models differ tell them apart.
    half = DEVIATIONS * math.sqrt(TYPICAL * (1 - TYPICAL) / independent)
    smallest = DEVIATIONS * math.sqrt(DISAGREEMENT / independent)
    return (
        f"With {rows}, test measures an accuracy of {TYPICAL} to within {half:.3f}, and tells two"
        f" models apart that differ by {smallest:.3f} or more."
    )


@resolution.register(Multilabel)
def _(_task: Multilabel, rows: str, independent: float, _metric: Metric) -> str:
    """Return on how many rows a label in ten rows is measured."""
    return (
        f"With {rows}, a label that one row in ten has is measured on {independent // 10:,.0f} of them:"
        " the intervals say how exactly."
    )


@resolution.register(Regression)
def _(_task: Regression, rows: str, independent: float, _metric: Metric) -> str:
    """Return the half width of an interval of the correlation."""
    # Standard error of Pearson's r.
    half = DEVIATIONS * (1 - TYPICAL**2) / math.sqrt(independent)
    return f"With {rows}, test measures a correlation of {TYPICAL} to within {half:.2f}."
