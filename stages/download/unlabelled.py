"""Rows of a source without labels, by kind of task."""

from functools import singledispatch

import pyarrow as pa
import pyarrow.compute as pc

from tuneline.tasks import Multilabel, Task
from tuneline.tasks.columns import label_type, staged_type
from tuneline.tasks.task import UNLABELLED


@singledispatch
def has_labels(task: Task, labels: pa.Array) -> bool:
    """Return True if any row of a column of ``staged_type`` has a label: -1 and null are none."""
    unlabelled = pa.scalar(UNLABELLED).cast(staged_type(task))
    return bool(pc.any(pc.not_equal(labels, unlabelled)).as_py())


@has_labels.register(Multilabel)
def _(_task: Multilabel, labels: pa.Array) -> bool:
    """Return True if any row has a name.

    The empty set is a label beside others, but rows that are to be labelled have an empty column, too.
    """
    return len(labels.flatten()) > 0


@singledispatch
def unlabelled_column(task: Task, rows: int) -> pa.Array:
    """Return a column of ``label_type`` for a split without labels."""
    return pa.array([UNLABELLED] * rows, label_type(task))


@unlabelled_column.register(Multilabel)
def _(task: Multilabel, rows: int) -> pa.Array:
    """Return a column of rows without a label."""
    return pa.array([[UNLABELLED]] * rows, label_type(task))
