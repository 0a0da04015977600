"""What a table stores about its labels, by kind of task, and which task a table is about."""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import pyarrow as pa

from tuneline.core.tables import LABELS, StoredLabels, tokenized_split_schema, with_features
from tuneline.tasks.classification import Classification
from tuneline.tasks.columns import label_type
from tuneline.tasks.multilabel import Multilabel
from tuneline.tasks.reading import TASKS
from tuneline.tasks.regression import Regression
from tuneline.tasks.task import DECISIONS, Task


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
    """Return how a table stores labels or predictions of a task."""
    return StoredLabels(label_type(task), label_feature(task))


@singledispatch
def label_feature(task: Task) -> dict[str, Any]:
    """Return what the datasets library stores about a column of labels or predictions.

    A kind of task other than classification and regression adds its ``kind`` as ``task``.
    """
    raise NotImplementedError(task.kind)


@label_feature.register(Classification)
def _(task: Classification) -> dict[str, Any]:
    """Return a class label with its names, and what decides about probabilities."""
    label: dict[str, Any] = {"names": list(task.names), "_type": "ClassLabel"}
    if task.decisions:
        label[DECISIONS] = task.decisions
    return label


@label_feature.register(Multilabel)
def _(task: Multilabel) -> dict[str, Any]:
    """Return a list of class labels with their names, and what decides on them."""
    label: dict[str, Any] = {"names": list(task.names), "_type": "ClassLabel", "task": task.kind}
    if task.decisions:
        label[DECISIONS] = task.decisions
    return {"feature": label, "_type": "List"}


@label_feature.register(Regression)
def _(_task: Regression) -> dict[str, Any]:
    """Return a value."""
    return {"dtype": "float32", "_type": "Value"}


def read_task(schema: pa.Schema, column: str = LABELS) -> Task:
    """Return the task of a table of labels or predictions.

    Raises:
        DataError: This project did not write the table.
    """
    feature = StoredLabels.of(schema, column).label_feature
    if feature["_type"] == "List":
        feature = feature["feature"]
    kinds = {"ClassLabel": Classification.kind, "Value": Regression.kind}
    task = TASKS[feature.get("task", kinds[feature["_type"]])].of_outputs(feature.get("names", ()))
    return task.with_decisions(feature.get(DECISIONS, {}))
