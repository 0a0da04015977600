"""What a table stores about its labels, by kind of task, and which task a table is about."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tuneline.core.stage.tables import LABELS, StoredLabels, tokenized_split_schema, with_features
from tuneline.model.tasks import DECISIONS, Task, recorded_kind, task_with_names
from tuneline.model.tasks.columns import label_type


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
