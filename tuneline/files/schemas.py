"""The Parquet tables that stages hand on: their schemas, and the label names inside them.

Label names travel in the schema's metadata the way the datasets library writes features, so that
``datasets.load_dataset("parquet", ...)`` gives back a ``ClassLabel``; no side file can get lost. Fields are declared nullable,
though no stage writes a null: the library drops the metadata of a column declared otherwise.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.errors import DataError

LABELS = "labels"
UNLABELLED = -1
"""The label of every row in a split published without labels (GLUE's test splits)."""
ROW_GROUP = 10_000
"""Rows per Parquet row group: fixed, so that the same rows give the same bytes however they were batched."""
_FEATURES = b"huggingface"


@dataclass(frozen=True)
class LabelSchema:
    """What the label column holds.

    Attributes:
        names: Class names in the order of their ids; ``None`` for a regression.
    """

    names: tuple[str, ...] | None

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers to predict, not classes."""
        return self.names is None

    @property
    def outputs(self) -> int:
        """Width of the logits: one per class, or one number."""
        return 1 if self.names is None else len(self.names)

    @property
    def type(self) -> pa.DataType:
        """Arrow type of the label column: int64 ids, or float32."""
        return pa.float32() if self.names is None else pa.int64()

    @classmethod
    def of(cls, schema: pa.Schema) -> Self:
        """Reads the labels back from a table's schema.

        Raises:
            DataError: The schema was not written by this project.
        """
        try:
            feature = json.loads(schema.metadata[_FEATURES])["info"]["features"][LABELS]
        except (KeyError, TypeError, ValueError):
            raise DataError("A table has no label names in its schema.", "Make it with `dvc repro download`.") from None
        return cls(tuple(feature["names"]) if feature["_type"] == "ClassLabel" else None)


def read_labels(path: Path) -> LabelSchema:
    """The labels of a raw or tokenized Parquet file."""
    return LabelSchema.of(pq.read_schema(path))


def raw_schema(text_columns: Sequence[str], labels: LabelSchema) -> pa.Schema:
    """Schema of ``data/raw/*.parquet``: the text columns, ``labels``, and ``idx``, the row's number in its source."""
    fields = [pa.field(name, pa.string()) for name in text_columns]
    fields += [pa.field(LABELS, labels.type), pa.field("idx", pa.int64(), nullable=False)]
    return _with_features(fields, labels)


def tokenized_schema(token_type_ids: bool, labels: LabelSchema) -> pa.Schema:
    """Schema of ``data/tokenized/*.parquet``: unpadded lists of ids, and ``labels``."""
    columns = ["input_ids", "attention_mask", *(["token_type_ids"] if token_type_ids else [])]
    fields = [pa.field(name, pa.list_(pa.int32() if name == "input_ids" else pa.int8())) for name in columns]
    return _with_features([*fields, pa.field(LABELS, labels.type)], labels)


def _with_features(fields: list[pa.Field], labels: LabelSchema) -> pa.Schema:
    features = {field.name: _feature(field, labels) for field in fields}
    return pa.schema(fields, metadata={_FEATURES: json.dumps({"info": {"features": features}}).encode()})


def _feature(field: pa.Field, labels: LabelSchema) -> dict[str, Any]:
    if field.name == LABELS and labels.names is not None:
        return {"names": list(labels.names), "_type": "ClassLabel"}
    if pa.types.is_list(field.type):
        return {"feature": {"dtype": str(field.type.value_type), "_type": "Value"}, "_type": "List"}
    return {"dtype": {"float": "float32"}.get(str(field.type), str(field.type)), "_type": "Value"}


def write_table(table: pa.Table, path: Path) -> None:
    """Writes a whole table with this project's row groups and compression."""
    write_batches(path, table.schema, table.to_batches(max_chunksize=ROW_GROUP))


def write_batches(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch]) -> int:
    """Streams batches to Parquet, one row group each, and returns the number of rows.

    The bytes depend on the rows and on how they are batched: batch by ``ROW_GROUP``.
    """
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows
