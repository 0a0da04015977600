"""How labels are counted and compared with the labels of other rows, by kind of task."""

import numpy as np
from numpy.typing import NDArray

from tuneline.model.tasks import Task
from tuneline.model.tasks.task import Labels


def bins(task: Task, train: Labels) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return a few bins of labels, given the labels of train: their names, and the edges between them.

    Bin ``i`` has the labels above edge ``i - 1``, up to and including edge ``i``. There is one for each
    class, whose name is in quotes; numbers have two: up to the median of train, and above.
    """
    if task.has_classes:
        return tuple(f'"{name}"' for name in task.class_names), tuple(range(task.outputs - 1))
    numbers = train[task.valid(train)]
    median = float(np.median(numbers)) if len(numbers) else 0.0
    return (f"labels up to {median:.4g}", f"labels above {median:.4g}"), (median,)


def bin_values(task: Task, labels: Labels) -> Labels:
    """Return what is counted in ``bins`` of valid labels, shape ``(values,)``.

    Where a row can have several labels, it counts once for each.
    """
    if task.label_shape:
        return np.asarray(np.nonzero(labels == 1)[1])
    return labels


def histograms(task: Task, counts: NDArray[np.int64], rows: int) -> list[NDArray[np.int64]]:
    """Return what is compared with other rows to find drift, given how often each of ``bins`` occurs.

    Each histogram counts every row once. Where a row can have several labels, which depend on each other,
    there is one for each label: the rows with and without it.
    """
    if task.label_shape:
        return [np.array([count, rows - count]) for count in np.minimum(counts, rows).tolist()]
    return [counts]


def largest_share(task: Task, labels: Labels) -> float:
    """Return the share of the rows with the most frequent label, or with none; there is a row."""
    if not task.label_shape:
        _, rows = np.unique(labels, return_counts=True)
        return float(rows.max() / rows.sum())
    sets = labels[task.valid(labels)] == 1
    if not sets.size:
        return 0.0
    return float(max(sets.mean(axis=0).max(), (~sets.any(axis=1)).mean()))
