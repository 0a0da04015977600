"""Labels and predictions as columns of Arrow tables, by kind of task: how they are read and stored.

Who predicts in a program has arrays only, and needs neither this module nor Arrow.
"""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.core.tables import numpy_values
from tuneline.tasks.classification import Classification
from tuneline.tasks.multilabel import Multilabel
from tuneline.tasks.regression import Regression
from tuneline.tasks.task import UNKNOWN, UNLABELLED, Labels, Task

UNIT_SEPARATOR = "\x1f"
"""What joins the names of a row, because no name contains it."""


@singledispatch
def staged_type(task: Task) -> pa.DataType:
    """Return the type of a label column as it is read from the user's data: names of classes, or numbers."""
    raise NotImplementedError(task.kind)


@staged_type.register(Classification)
def _(_task: Classification) -> pa.DataType:
    """Return the type of a name."""
    return pa.string()


@staged_type.register(Multilabel)
def _(_task: Multilabel) -> pa.DataType:
    """Return the type of a list of names."""
    return pa.list_(pa.string())


@staged_type.register(Regression)
def _(_task: Regression) -> pa.DataType:
    """Return the type of a number."""
    return pa.float64()


@singledispatch
def label_type(task: Task) -> pa.DataType:
    """Return the type of a column of labels or predictions."""
    raise NotImplementedError(task.kind)


@label_type.register(Classification)
def _(_task: Classification) -> pa.DataType:
    """Return the type of a class id."""
    return pa.int64()


@label_type.register(Multilabel)
def _(_task: Multilabel) -> pa.DataType:
    """Return the type of a list of ids, ascending."""
    return pa.list_(pa.int64())


@label_type.register(Regression)
def _(_task: Regression) -> pa.DataType:
    """Return the type of a number of 32 bits."""
    return pa.float32()


# What the user's data has.


@singledispatch
def observed_classes(task: Task, labels: pa.Array) -> set[Any]:
    """Return the classes that occur in a column, of names or of ids; none where labels are not classes."""
    raise NotImplementedError(task.kind)


@observed_classes.register(Classification)
def _(_task: Classification, labels: pa.Array) -> set[Any]:
    """Return the classes."""
    return set(pc.unique(labels.drop_null()).to_pylist())


@observed_classes.register(Multilabel)
def _(_task: Multilabel, labels: pa.Array) -> set[Any]:
    """Return the labels."""
    return set(pc.unique(pc.list_flatten(labels)).to_pylist())


@observed_classes.register(Regression)
def _(_task: Regression, labels: pa.Array) -> set[Any]:  # noqa: ARG001
    """Return none: numbers are not classes."""
    return set()


@singledispatch
def label_texts(_task: Task, labels: pa.Array) -> pa.Array:
    """Return labels of ``staged_type`` as text, the same for equal labels; null for a missing one."""
    return labels.cast(pa.string())


@label_texts.register(Multilabel)
def _(_task: Multilabel, labels: pa.Array) -> pa.Array:
    """Return the names of each row, sorted, with ``UNIT_SEPARATOR`` between them."""
    texts = []
    for names in labels.to_pylist():
        texts.append(None if names is None else UNIT_SEPARATOR.join(sorted(names)))
    return pa.array(texts, pa.string())


@singledispatch
def stored_labels(task: Task, labels: pa.Array, written: Sequence[str]) -> pa.Array:
    """Return labels of ``staged_type`` as ``label_type``; -1 for an unknown class.

    ``written`` is how each class is written there.
    """
    raise NotImplementedError(task.kind)


@stored_labels.register(Classification)
def _(task: Classification, labels: pa.Array, written: Sequence[str]) -> pa.Array:
    """Return the ids of the classes."""
    ids = pc.index_in(labels, value_set=pa.array(written, pa.string()))
    return pc.if_else(pc.is_null(labels), None, pc.fill_null(ids, UNLABELLED)).cast(label_type(task))


@stored_labels.register(Multilabel)
def _(task: Multilabel, labels: pa.Array, written: Sequence[str]) -> pa.Array:
    """Return the ids of the labels, ascending; ``[-1]`` for a row with an unknown label."""
    names = pa.array(written, pa.string())
    ids = pc.fill_null(pc.index_in(pc.list_flatten(labels), value_set=names), UNLABELLED)
    sets = _sets(task, labels, numpy_values(ids.cast(pa.int64())))
    return pc.if_else(pc.is_valid(labels), column_of(task, sets), None)


@stored_labels.register(Regression)
def _(task: Regression, labels: pa.Array, written: Sequence[str]) -> pa.Array:  # noqa: ARG001
    """Return the numbers in 32 bits."""
    return labels.cast(label_type(task), safe=False)


@singledispatch
def parsed_labels(task: Task, texts: pa.ChunkedArray) -> Labels:
    """Return labels that a person wrote.

    A text that is not a label gives a label that is not ``Task.valid``.
    """
    raise NotImplementedError(task.kind)


@parsed_labels.register(Classification)
def _(task: Classification, texts: pa.ChunkedArray) -> Labels:
    """Return the ids of class names, -2 for an unknown one."""
    # An invalid class has its own id, because -1 is a missing label.
    ids = pc.fill_null(pc.index_in(texts, value_set=pa.array(task.names, pa.string())), UNKNOWN)
    return np.asarray(ids.to_numpy().astype(np.int64))


@parsed_labels.register(Multilabel)
def _(task: Multilabel, texts: pa.ChunkedArray) -> Labels:
    """Return the labels that texts list, -2 for a text with an unknown one."""
    labels = np.zeros((len(texts), task.outputs), np.int8)
    ids = {name: index for index, name in enumerate(task.names)}
    for row, text in enumerate(texts.to_pylist()):
        for name in task.names_in(text):
            if name not in ids:
                labels[row] = UNKNOWN
                break
            labels[row, ids[name]] = 1
    return labels


@parsed_labels.register(Regression)
def _(_task: Regression, texts: pa.ChunkedArray) -> Labels:
    """Return the numbers, NaN for a text that is none."""
    return np.array([_number(text) for text in texts.to_pylist()], dtype=np.float32)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


# What stages store.


@singledispatch
def array_of(_task: Task, column: pa.Array | pa.ChunkedArray) -> Labels:
    """Return a column of labels or predictions, without nulls, as an array, which may be read-only."""
    return numpy_values(column)


@array_of.register(Multilabel)
def _(task: Multilabel, column: pa.Array | pa.ChunkedArray) -> Labels:
    """Return lists of ids as 0 or 1 for each label; -1 throughout for ``[-1]``."""
    return _sets(task, column, numpy_values(pc.list_flatten(column)))


def _sets(task: Multilabel, lists: pa.Array | pa.ChunkedArray, ids: NDArray[np.int64]) -> Labels:
    """Return rows of lists, whose elements have these ids, as 0 or 1 for each label."""
    rows = numpy_values(pc.list_parent_indices(lists).cast(pa.int64()))
    labels = np.zeros((len(lists), task.outputs), np.int8)
    is_label = (ids >= 0) & (ids < task.outputs)
    labels[rows[is_label], ids[is_label]] = 1
    labels[rows[ids == UNLABELLED]] = UNLABELLED
    labels[rows[(ids < UNLABELLED) | (ids >= task.outputs)]] = UNKNOWN
    return labels


def labels_of(task: Task, column: pa.Array | pa.ChunkedArray) -> Labels:
    """Return a column of labels as an array, which may be read-only; a null is a missing label."""
    if not column.null_count:
        return array_of(task, column)
    labels = np.full((len(column), *task.label_shape), UNLABELLED, task.label_dtype)
    labels[column.is_valid().to_numpy(zero_copy_only=False)] = array_of(task, column.drop_null())
    return labels


@singledispatch
def column_of(task: Task, labels: Labels) -> pa.Array:
    """Return an array of labels or predictions as a column of ``label_type``."""
    return pa.array(labels, label_type(task))


@column_of.register(Multilabel)
def _(task: Multilabel, labels: Labels) -> pa.Array:
    """Return 0 or 1 for each label as lists of ids."""
    rows, ids = np.nonzero(labels == 1)
    lists = np.split(ids, np.searchsorted(rows, np.arange(1, len(labels))))
    if not len(labels):
        lists = []
    missing = np.flatnonzero((labels < 0).any(axis=1))
    for row in missing.tolist():
        lists[row] = labels[row, :1].astype(np.int64)
    return pa.array(lists, label_type(task))


# What files of predictions have for people and programs.


@singledispatch
def encoded_predictions(task: Task, predicted: pa.ChunkedArray) -> Labels:
    """Return the column ``Task.prediction_column`` of a file as predictions of this task.

    A class that this task does not have is -1.
    """
    raise NotImplementedError(task.kind)


@encoded_predictions.register(Classification)
def _(task: Classification, predicted: pa.ChunkedArray) -> Labels:
    """Return the ids of class names."""
    # A file of another model may have other classes.
    ids = pc.fill_null(pc.index_in(predicted, pa.array(task.names)), -1)
    return np.asarray(ids.to_numpy().astype(np.int64))


@encoded_predictions.register(Multilabel)
def _(task: Multilabel, predicted: pa.ChunkedArray) -> Labels:
    """Return lists of names, or texts that join them, as labels; -1 for a set with an unknown one."""
    if pa.types.is_string(predicted.type) or pa.types.is_large_string(predicted.type):
        labels = parsed_labels(task, predicted)
        labels[(labels == UNKNOWN).any(axis=1)] = UNLABELLED
        return labels
    return array_of(task, stored_labels(task, predicted.combine_chunks(), task.names))


@encoded_predictions.register(Regression)
def _(_task: Regression, predicted: pa.ChunkedArray) -> Labels:
    """Return the numbers."""
    return np.asarray(predicted.to_numpy())


@singledispatch
def decoded_predictions(task: Task, predictions: Labels) -> pa.Array:
    """Return predictions as the column ``Task.prediction_column`` of a file has them."""
    raise NotImplementedError(task.kind)


@decoded_predictions.register(Classification)
def _(task: Classification, predictions: Labels) -> pa.Array:
    """Return the names of class ids."""
    return pa.array([task.names[index] for index in predictions.tolist()], pa.string())


@decoded_predictions.register(Multilabel)
def _(task: Multilabel, predictions: Labels) -> pa.Array:
    """Return lists of names."""
    return pa.array([task.names_of(row) for row in predictions.tolist()], pa.list_(pa.string()))


@decoded_predictions.register(Regression)
def _(_task: Regression, predictions: Labels) -> pa.Array:
    """Return the numbers."""
    return pa.array(predictions)
