"""Labels and predictions as columns of Arrow tables, by kind of task: how they are read and stored.

Who predicts in a program has arrays only, and needs neither this module nor Arrow.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.core.stage.tables import numpy_values
from tuneline.model.tasks import Classification, Multilabel, Regression, Task
from tuneline.model.tasks.task import UNKNOWN, UNLABELLED, Labels

UNIT_SEPARATOR = "\x1f"
"""What joins the names of a row, because no name contains it."""
STAGED_TYPES: dict[str, pa.DataType] = {
    "classification": pa.string(),
    "regression": pa.float64(),
    "multilabel": pa.list_(pa.string()),
}
LABEL_TYPES: dict[str, pa.DataType] = {
    "classification": pa.int64(),
    "regression": pa.float32(),
    "multilabel": pa.list_(pa.int64()),
}


def staged_type(task: Task) -> pa.DataType:
    """Return the type of a label column as it is read from the user's data: names of classes, or numbers."""
    return STAGED_TYPES[task.kind]


def label_type(task: Task) -> pa.DataType:
    """Return the type of a column of labels or predictions: ids of classes, or numbers of 32 bits."""
    return LABEL_TYPES[task.kind]


# What the user's data has.


def observed_classes(task: Task, labels: pa.Array) -> dict[Any, int]:
    """Return how often each class, a name or an id, occurs in a column; labels of numbers have none."""
    if isinstance(task, Regression):
        return {}
    if isinstance(task, Multilabel):
        labels = pc.list_flatten(labels)
    counts = pc.value_counts(labels.drop_null())
    return dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))


def label_texts(task: Task, labels: pa.Array) -> pa.Array:
    """Return labels of ``staged_type`` as text, the same for equal labels; null for a missing one.

    Of several names, these are sorted, with ``UNIT_SEPARATOR`` between them.
    """
    if not isinstance(task, Multilabel):
        return labels.cast(pa.string())
    texts = []
    for names in labels.to_pylist():
        texts.append(None if names is None else UNIT_SEPARATOR.join(sorted(names)))
    return pa.array(texts, pa.string())


def stored_labels(task: Task, labels: pa.Array, written: Sequence[str]) -> pa.Array:
    """Return labels of ``staged_type`` as ``label_type``; -1 for an unknown class.

    ``written`` is how each class is written there. A row with an unknown one of several labels is ``[-1]``.
    """
    if isinstance(task, Regression):
        return labels.cast(label_type(task), safe=False)
    names = pa.array(written, pa.string())
    if isinstance(task, Multilabel):
        ids = pc.fill_null(pc.index_in(pc.list_flatten(labels), value_set=names), UNLABELLED)
        sets = _sets(task, labels, numpy_values(ids.cast(pa.int64())))
        return pc.if_else(pc.is_valid(labels), column_of(task, sets), None)
    ids = pc.index_in(labels, value_set=names)
    return pc.if_else(pc.is_null(labels), None, pc.fill_null(ids, UNLABELLED)).cast(label_type(task))


def parsed_labels(task: Task, texts: pa.ChunkedArray) -> Labels:
    """Return labels that a person wrote.

    A text that is not a label gives one that is not valid: -2, which differs from -1, a missing label, or
    NaN.
    """
    if isinstance(task, Regression):
        return np.array([_number(text) for text in texts.to_pylist()], dtype=np.float32)
    if isinstance(task, Classification):
        return _ids(task, texts, UNKNOWN)
    labels = np.zeros((len(texts), task.outputs), np.int8)
    ids = {name: index for index, name in enumerate(task.names)}
    for row, text in enumerate(texts.to_pylist()):
        for name in task.names_in(text):
            if name not in ids:
                labels[row] = UNKNOWN
                break
            labels[row, ids[name]] = 1
    return labels


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _ids(task: Classification, names: pa.ChunkedArray, unknown: int) -> Labels:
    """Return the ids of class names."""
    ids = pc.fill_null(pc.index_in(names, value_set=pa.array(task.names, pa.string())), unknown)
    return np.asarray(ids.to_numpy().astype(np.int64))


# What stages store.


def array_of(task: Task, column: pa.Array | pa.ChunkedArray) -> Labels:
    """Return a column of labels or predictions, without nulls, as an array, which may be read-only.

    Lists of ids are 0 or 1 for each label; -1 throughout for ``[-1]``.
    """
    if isinstance(task, Multilabel):
        return _sets(task, column, numpy_values(pc.list_flatten(column)))
    return numpy_values(column)


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


def column_of(task: Task, labels: Labels) -> pa.Array:
    """Return an array of labels or predictions as a column of ``label_type``."""
    if not isinstance(task, Multilabel):
        return pa.array(labels, label_type(task))
    rows, ids = np.nonzero(labels == 1)
    lists = np.split(ids, np.searchsorted(rows, np.arange(1, len(labels))))
    if not len(labels):
        lists = []
    missing = np.flatnonzero((labels < 0).any(axis=1))
    for row in missing.tolist():
        lists[row] = labels[row, :1].astype(np.int64)
    return pa.array(lists, label_type(task))


# What files of predictions have for people and programs.


def encoded_predictions(task: Task, predicted: pa.ChunkedArray) -> Labels:
    """Return the column ``prediction_column`` of a file as predictions of this task.

    A class that this task does not have is -1: a file of another model may have other classes.
    """
    if isinstance(task, Regression):
        return np.asarray(predicted.to_numpy())
    if isinstance(task, Classification):
        return _ids(task, predicted, UNLABELLED)
    if pa.types.is_string(predicted.type) or pa.types.is_large_string(predicted.type):
        labels = parsed_labels(task, predicted)
        labels[(labels == UNKNOWN).any(axis=1)] = UNLABELLED
        return labels
    return array_of(task, stored_labels(task, predicted.combine_chunks(), task.names))


def decoded_predictions(task: Task, predictions: Labels) -> pa.Array:
    """Return predictions as the column ``prediction_column`` of a file has them."""
    if isinstance(task, Regression):
        return pa.array(predictions)
    if isinstance(task, Multilabel):
        return pa.array([task.names_of(row) for row in predictions.tolist()], pa.list_(pa.string()))
    return pa.array([task.names[index] for index in predictions.tolist()], pa.string())
