"""Labels with which a function of the user is tried, by kind of task."""

from functools import singledispatch

import numpy as np

from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.task import Labels


@singledispatch
def example_labels(task: Task, rows: int) -> Labels:
    """Return labels of several kinds, with which a function of the user is tried."""
    raise NotImplementedError(task.kind)


@example_labels.register(Classification)
def _(task: Classification, rows: int) -> Labels:
    """Return class ids, each class in turn."""
    return np.arange(rows) % task.outputs


@example_labels.register(Multilabel)
def _(task: Multilabel, rows: int) -> Labels:
    """Return labels in the pattern of binary numbers, so that sets of several sizes occur."""
    numbers = np.arange(rows)[:, None]
    return np.asarray((numbers >> np.arange(task.outputs) % 8) & 1).astype(np.int8)


@example_labels.register(Regression)
def _(_task: Regression, rows: int) -> Labels:
    """Return different numbers."""
    return np.arange(rows, dtype=np.float32)
