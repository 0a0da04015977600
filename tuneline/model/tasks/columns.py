"""Labels and predictions as columns of Arrow tables: how they are read, stored and described.

Who predicts in a program has arrays only, and needs neither this module nor Arrow.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.core.stage.tables import (
    LABELS,
    StoredLabels,
    numpy_values,
    tokenized_split_schema,
    with_features,
)
from tuneline.model.tasks import DECISIONS, Task, recorded_kind, task_with_names
from tuneline.model.tasks.task import UNKNOWN, UNLABELLED, Labels

UNIT_SEPARATOR = "\x1f"
"""What joins the names of a row, because no name contains it."""


def staged_type(task: Task) -> pa.DataType:
    """Return the type of a label column as it is read from the user's data: names of classes, or numbers."""
    if not task.has_classes:
        return pa.float64()
    if task.label_shape:
        return pa.list_(pa.string())
    return pa.string()


def label_type(task: Task) -> pa.DataType:
    """Return the type of a column of labels or predictions: ids of classes, or numbers of 32 bits."""
    if task.label_shape:
        return pa.list_(pa.int64())
    return pa.from_numpy_dtype(task.label_dtype)


# What the user's data has.


def observed_classes(task: Task, labels: pa.Array) -> dict[Any, int]:
    """Return how often each class, a name or an id, occurs in a column; labels of numbers have none."""
    if not task.has_classes:
        return {}
    counts = pc.value_counts(_elements(labels).drop_null())
    return dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))


def label_texts(labels: pa.Array) -> pa.Array:
    """Return labels of ``staged_type`` as text, the same for equal labels; null for a missing one.

    Of several names, these are sorted, with ``UNIT_SEPARATOR`` between them.
    """
    if not pa.types.is_list(labels.type):
        return labels.cast(pa.string())
    texts = []
    for names in labels.to_pylist():
        texts.append(None if names is None else UNIT_SEPARATOR.join(sorted(names)))
    return pa.array(texts, pa.string())


def stored_labels(task: Task, labels: pa.Array, written: Sequence[str]) -> pa.Array:
    """Return labels of ``staged_type`` as ``label_type``; -1 for an unknown class.

    ``written`` is how each class is written there. A row with an unknown one of several labels is ``[-1]``.
    """
    if not task.has_classes:
        return labels.cast(label_type(task), safe=False)
    ids = pc.index_in(_elements(labels), value_set=pa.array(written, pa.string()))
    ids = pc.fill_null(ids, UNLABELLED).cast(pa.int64())
    if task.label_shape:
        ids = column_of(task, _sets(task, labels, numpy_values(ids)))
    return pc.if_else(pc.is_valid(labels), ids, None)


def parsed_labels(task: Task, texts: pa.ChunkedArray) -> Labels:
    """Return labels that a person wrote.

    A text that is not a label gives one that is not valid: -2, which differs from -1, a missing label, or
    NaN.
    """
    values = [task.parse(text) for text in texts.to_pylist()]
    labels = labels_of(task, stored_labels(task, pa.array(values, staged_type(task)), task.class_names))
    if not task.has_classes:
        return labels
    return np.where(labels == UNLABELLED, UNKNOWN, labels).astype(task.label_dtype)


def _elements(labels: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the names or ids in a column, of all rows together where a row has a list of them."""
    if pa.types.is_list(labels.type):
        return pc.list_flatten(labels)
    return labels


# What stages store.


def array_of(task: Task, column: pa.Array | pa.ChunkedArray) -> Labels:
    """Return a column of labels or predictions, without nulls, as an array, which may be read-only.

    Lists of ids are 0 or 1 for each label; -1 throughout for ``[-1]``.
    """
    values = numpy_values(_elements(column))
    if task.label_shape:
        return _sets(task, column, values)
    return values


def _sets(task: Task, lists: pa.Array | pa.ChunkedArray, ids: NDArray[np.int64]) -> Labels:
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
    if not task.label_shape:
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
    if not task.has_classes:
        return np.asarray(predicted.to_numpy())
    values = predicted.combine_chunks()
    if task.label_shape and not pa.types.is_list(values.type):  # a file of text
        values = pa.array([task.parse(text) for text in values.to_pylist()], staged_type(task))
    return labels_of(task, stored_labels(task, values, task.class_names))


def raw_schema(text_columns: Sequence[str], task: Task) -> pa.Schema:
    """Return the schema of ``data/raw/*.parquet``: texts, ``labels``, and ``idx``, the row in the source."""
    labels = stored_as(task)
    fields = [pa.field(name, pa.string()) for name in text_columns]
    fields += [pa.field(LABELS, labels.label_type), pa.field("idx", pa.int64(), nullable=False)]
    return with_features(fields, labels)


def tokenized_schema(token_type_ids: bool, task: Task, answer: str | None = None) -> pa.Schema:
    """Return ``tokenized_split_schema`` of a task."""
    return tokenized_split_schema(token_type_ids, stored_as(task), answer)


def stored_as(task: Task) -> StoredLabels:
    """Return how a table stores labels or predictions of a task.

    The feature is what the datasets library stores about such a column, with what decides on predictions.
    """
    feature: dict[str, Any] = {"dtype": "float32", "_type": "Value"}
    if task.has_classes:
        feature = {"names": list(task.class_names), "_type": "ClassLabel"}
    kind = recorded_kind(task)
    if kind is not None:
        feature["task"] = kind
    if task.has_classes and task.decisions:
        feature[DECISIONS] = task.decisions
    if task.label_shape:
        feature = {"feature": feature, "_type": "List"}
    return StoredLabels(label_type(task), feature)


def read_task(schema: pa.Schema, column: str = LABELS) -> Task:
    """Return the task of a table of labels or predictions.

    Raises:
        DataError: This project did not write the table.
    """
    feature = StoredLabels.of(schema, column).label_feature
    if feature["_type"] == "List":
        feature = feature["feature"]
    task = task_with_names(feature.get("names"), feature.get("task"))
    return task.with_decisions(feature.get(DECISIONS, {}))
