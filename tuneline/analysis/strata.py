"""The strata of rows that are divided into splits, by kind of task."""

from functools import singledispatch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.columns import staged_type


@singledispatch
def strata(task: Task, labels: pa.Array) -> pa.Array:
    """Return the strata that each row is in, as lists of text: each stratum has its share of each split.

    Labels are of ``staged_type``. A row without a label is in none.
    """
    raise NotImplementedError(task.kind)


@strata.register(Classification)
def _(_task: Classification, labels: pa.Array) -> pa.Array:
    """Return the class of each row."""
    row_ends = np.cumsum(labels.is_valid().to_numpy(zero_copy_only=False))
    offsets = np.concatenate([[0], row_ends])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), labels.drop_null())


@strata.register(Multilabel)
def _(task: Multilabel, labels: pa.Array) -> pa.Array:
    """Return the labels of each row; the empty text where it has none."""
    is_empty = pc.equal(pc.list_value_length(labels), 0)
    sets = pc.if_else(is_empty, pa.scalar([""], staged_type(task)), labels)
    return pc.fill_null(sets, pa.scalar([], staged_type(task)))


@strata.register(Regression)
def _(_task: Regression, labels: pa.Array) -> pa.Array:
    """Return no stratum: numbers are no classes."""
    return pa.array([[]] * len(labels), pa.list_(pa.string()))
