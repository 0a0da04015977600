"""Schemas of the tables between stages, and which task a table is about.

What labels mean is stored in the metadata as the datasets library stores features, so that
``datasets.load_dataset("parquet", ...)`` restores a ``ClassLabel``, and no separate file can get lost. Fields
are nullable, although no stage writes a null: the library drops the metadata of a column that is not.
"""

import json
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import pyarrow as pa

from tuneline.core.tables import ANSWER, FEATURES, LABELS, WINDOW_LENGTHS
from tuneline.runtime.errors import DataError
from tuneline.tasks.classification import Classification
from tuneline.tasks.columns import label_type
from tuneline.tasks.multilabel import Multilabel
from tuneline.tasks.reading import TASKS
from tuneline.tasks.regression import Regression
from tuneline.tasks.task import DECISIONS, Task


def raw_schema(text_columns: Sequence[str], task: Task) -> pa.Schema:
    """Return the schema of ``data/raw/*.parquet``: texts, ``labels``, and ``idx``, the row in the source."""
    fields = [pa.field(name, pa.string()) for name in text_columns]
    fields += [pa.field(LABELS, label_type(task)), pa.field("idx", pa.int64(), nullable=False)]
    return with_features(fields, task)


def tokenized_schema(token_type_ids: bool, task: Task, answer: str | None = None) -> pa.Schema:
    """Return the schema of ``data/tokenized/*.parquet``: unpadded lists of model inputs, and ``labels``.

    With an ``answer``, rows are divided into windows: the lists have the windows of a row, one after the
    other, the column ``WINDOW_LENGTHS`` has their lengths, and the metadata how they give one answer.
    """
    fields = [
        pa.field("input_ids", pa.list_(pa.int32())),
        pa.field("attention_mask", pa.list_(pa.int8())),
    ]
    if token_type_ids:
        fields.append(pa.field("token_type_ids", pa.list_(pa.int8())))
    if answer is not None:
        fields.append(pa.field(WINDOW_LENGTHS, pa.list_(pa.int32())))
    fields.append(pa.field(LABELS, label_type(task)))
    schema = with_features(fields, task)
    if answer is not None:
        schema = schema.with_metadata({**schema.metadata, ANSWER: answer.encode()})
    return schema


def with_features(fields: list[pa.Field], task: Task, label_columns: Sequence[str] = (LABELS,)) -> pa.Schema:
    """Return a schema that says what each column is, as the datasets library stores it.

    Args:
        fields: The columns.
        task: What the ``label_columns`` hold.
        label_columns: Names of the columns of labels or predictions.
    """
    features: dict[str, dict[str, Any]] = {}
    for field in fields:
        if field.name in label_columns:
            features[field.name] = label_feature(task)
        elif pa.types.is_list(field.type):
            features[field.name] = {"feature": _value(field.type.value_type), "_type": "List"}
        else:
            features[field.name] = _value(field.type)
    return pa.schema(fields, metadata={FEATURES: json.dumps({"info": {"features": features}}).encode()})


def _value(kind: pa.DataType) -> dict[str, str]:
    # Arrow says "float", the datasets library "float32"
    name = "float32" if pa.types.is_float32(kind) else str(kind)
    return {"dtype": name, "_type": "Value"}


@singledispatch
def label_feature(task: Task) -> dict[str, Any]:
    """Return what the datasets library stores about a column of labels or predictions.

    A kind of task other than classification and regression adds its ``kind`` as ``task``.
    """
    raise NotImplementedError(task.kind)


@label_feature.register(Classification)
def _(task: Classification) -> dict[str, Any]:
    """Return a class label with its names."""
    return {"names": list(task.names), "_type": "ClassLabel"}


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
    try:
        feature = json.loads(schema.metadata[FEATURES])["info"]["features"][column]
    except (KeyError, TypeError, ValueError):
        raise DataError(
            "The table has no label names in its schema.", "Write it with `dvc repro download`."
        ) from None
    if feature["_type"] == "List":
        feature = feature["feature"]
    kinds = {"ClassLabel": Classification.kind, "Value": Regression.kind}
    task = TASKS[feature.get("task", kinds[feature["_type"]])].of_outputs(feature.get("names", ()))
    return task.with_decisions(feature.get(DECISIONS, {}))
