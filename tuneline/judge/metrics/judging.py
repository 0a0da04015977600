"""Which metrics judge a task, and how they average."""

import numpy as np

from tuneline.judge.metrics.table import METRIC_TABLE, Averaging, Metric, metrics_for
from tuneline.model.tasks import Classification, Task
from tuneline.model.tasks.task import Floats

FEWEST_STEPS = 3
"""Fewest classes that are a scale: of two, an error is always of the same size."""


def scale_numbers(task: Task) -> Floats | None:
    """Return the number of each class if the names are steps of a scale, such as ratings from 1 to 5.

    All names are numbers, and the distances between neighbours are multiples of the smallest one. At least
    half of the steps between the lowest and the highest number are there: a few numbers that are far apart
    are rather ids. Whether the numbers are meant to be ordered, nobody can see: topics may have numbers, too.
    """
    if not task.one_class or task.outputs < FEWEST_STEPS:
        return None
    try:
        numbers = np.array(list(map(float, task.class_names)))
    except ValueError:
        return None
    distances = np.diff(np.sort(numbers))
    smallest = distances.min()
    if not np.isfinite(distances).all() or smallest <= 0:
        return None

    steps = distances / smallest
    is_even = bool(np.allclose(steps, steps.round()))
    if not is_even or steps.sum() + 1 > 2 * task.outputs:
        return None
    return numbers


def task_metrics(task: Task) -> list[Metric]:
    """Return the metrics of a task, in the order of the metric table.

    Of classes that are the steps of a scale, it is also how far predictions are off.
    """
    metrics = metrics_for(task.judged_as)
    if scale_numbers(task) is not None:
        metrics.append(METRIC_TABLE["mae"])
    return metrics


def averaging(task: Task) -> Averaging:
    """Return how F1 of classes is averaged: of two, it is F1 of the rarer one; of more, the mean over all."""
    if isinstance(task, Classification) and task.outputs == 2:
        return task.positive
    return "macro"
