"""How labels are counted and compared with the labels of other rows, by kind of task."""

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.task import Labels


@singledispatch
def bins(task: Task, train: Labels) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return a few bins of labels, given the labels of train: their names, and the edges between them.

    Bin ``i`` has the labels above edge ``i - 1``, up to and including edge ``i``.
    """
    raise NotImplementedError(task.kind)


@bins.register(Classification)
@bins.register(Multilabel)
def _(task: Classification | Multilabel, _train: Labels) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return one bin for each name, which is in quotes."""
    return tuple(f'"{name}"' for name in task.names), tuple(range(task.outputs - 1))


@bins.register(Regression)
def _(task: Regression, train: Labels) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return two bins: up to the median of train, and above."""
    numbers = train[task.valid(train)]
    median = float(np.median(numbers)) if len(numbers) else 0.0
    return (f"labels up to {median:.4g}", f"labels above {median:.4g}"), (median,)


@singledispatch
def bin_values(_task: Task, labels: Labels) -> Labels:
    """Return what is counted in ``bins`` of valid labels, shape ``(values,)``: one for each row."""
    return labels


@bin_values.register(Multilabel)
def _(_task: Multilabel, labels: Labels) -> Labels:
    """Return the id of each label of each row: a row counts once for every label that it has."""
    return np.asarray(np.nonzero(labels == 1)[1])


@singledispatch
def histograms(_task: Task, counts: NDArray[np.int64], rows: int) -> list[NDArray[np.int64]]:  # noqa: ARG001
    """Return what is compared with other rows to find drift, given how often each of ``bins`` occurs.

    Each histogram counts every row once.
    """
    return [counts]


@histograms.register(Multilabel)
def _(_task: Multilabel, counts: NDArray[np.int64], rows: int) -> list[NDArray[np.int64]]:
    """Return the rows with and without each label: the labels of a row depend on each other."""
    return [np.array([count, rows - count]) for count in np.minimum(counts, rows).tolist()]


@singledispatch
def largest_share(_task: Task, labels: Labels) -> float:
    """Return the share of the rows that have the most frequent label, of one row or more."""
    _, rows = np.unique(labels, return_counts=True)
    return float(rows.max() / rows.sum())


@largest_share.register(Multilabel)
def _(task: Multilabel, labels: Labels) -> float:
    """Return the share of the rows with the most frequent label, or of those without any."""
    sets = labels[task.valid(labels)] == 1
    if not sets.size:
        return 0.0
    return float(max(sets.mean(axis=0).max(), (~sets.any(axis=1)).mean()))
