"""Schemas of the Parquet tables between stages, with the label names in their metadata.

Label names are stored as the datasets library stores features, so that ``datasets.load_dataset("parquet", ...)`` restores a
``ClassLabel``, and no separate file can get lost. Fields are nullable, although no stage writes a null: the library drops the metadata
of a column that is not.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.core.errors import DataError

if TYPE_CHECKING:
    from tuneline.core.shards import SplitReader

LABELS = "labels"
UNLABELLED = -1
"""Label of all rows of a split that was published without labels (GLUE's test splits)."""
ROW_GROUP = 10_000
"""Rows per Parquet row group. The number is fixed so that the same rows always give the same bytes."""
_FEATURES = b"huggingface"


@dataclass(frozen=True)
class LabelSchema:
    """Contents of the label column.

    Attributes:
        names: Class names in the order of their ids; ``None`` for a regression.
    """

    names: tuple[str, ...] | None

    @property
    def is_regression(self) -> bool:
        """True if labels are numbers, not classes."""
        return self.names is None

    @property
    def outputs(self) -> int:
        """Number of logits per row: one per class, or one for a regression."""
        return 1 if self.names is None else len(self.names)

    @property
    def type(self) -> pa.DataType:
        """Arrow type of the label column: int64 class ids or float32 numbers."""
        return pa.float32() if self.names is None else pa.int64()

    @classmethod
    def of(cls, schema: pa.Schema, column: str = LABELS) -> Self:
        """Read the label schema from the schema of a raw or tokenized split, or of predictions.

        Raises:
            DataError: The table was not written by this project.
        """
        try:
            feature = json.loads(schema.metadata[_FEATURES])["info"]["features"][column]
        except (KeyError, TypeError, ValueError):
            raise DataError("The table has no label names in its schema.", "Write it with `dvc repro download`.") from None
        return cls(tuple(feature["names"]) if feature["_type"] == "ClassLabel" else None)


def raw_schema(text_columns: Sequence[str], labels: LabelSchema) -> pa.Schema:
    """Return the schema of ``data/raw/*.parquet``: the text columns, ``labels``, and ``idx``, the row number in the source."""
    fields = [pa.field(name, pa.string()) for name in text_columns]
    fields += [pa.field(LABELS, labels.type), pa.field("idx", pa.int64(), nullable=False)]
    return _with_features(fields, labels)


def check_text_columns(split: "SplitReader", text_columns: Sequence[str]) -> None:
    """Check that a raw split has the text columns that params.yaml names by now."""
    present = split.schema.names[:-2]
    if present != list(text_columns):
        problem = f"{split.name} has the text columns {present}, and data.text_columns is {list(text_columns)}."
        raise DataError(problem, "Run `dvc repro`, or correct data.text_columns.")


def tokenized_schema(token_type_ids: bool, labels: LabelSchema) -> pa.Schema:
    """Return the schema of ``data/tokenized/*.parquet``: one unpadded list per row for each model input, and ``labels``."""
    columns = ["input_ids", "attention_mask", *(["token_type_ids"] if token_type_ids else [])]
    fields = [pa.field(name, pa.list_(pa.int32() if name == "input_ids" else pa.int8())) for name in columns]
    return _with_features([*fields, pa.field(LABELS, labels.type)], labels)


def predictions_schema(labels: LabelSchema) -> pa.Schema:
    """Return the schema of ``reports/predictions.parquet``: ``idx`` (row number in the split), ``label``, ``logits``, ``prediction``."""
    logits = pa.list_(pa.float32())
    columns = {"idx": pa.int64(), "label": labels.type, "logits": logits, "prediction": labels.type}
    return _with_features([pa.field(name, kind) for name, kind in columns.items()], labels, ("label", "prediction"))


def failing_rows_schema(text_columns: Sequence[str], pairs: bool) -> pa.Schema:
    """Return the schema of ``reports/checks/rows/*.parquet``: ``split``, ``row``, the text columns, ``reason``.

    Args:
        text_columns: A text column with the name of another column gets an underscore.
        pairs: The check compares rows: ``other_split`` and ``other_row`` follow, the row that a row repeats.
    """
    own = {"split": pa.string(), "row": pa.int64()}
    more = {"reason": pa.string(), "other_split": pa.string(), "other_row": pa.int64()}
    texts = [(f"{name}_" if name in own | more else name, pa.string()) for name in text_columns]
    return pa.schema([*own.items(), *texts, *list(more.items())[: 3 if pairs else 1]])


def _with_features(fields: list[pa.Field], labels: LabelSchema, label_columns: Sequence[str] = (LABELS,)) -> pa.Schema:
    features: dict[str, dict[str, Any]] = {}
    for field in fields:
        if field.name in label_columns and labels.names is not None:
            features[field.name] = {"names": list(labels.names), "_type": "ClassLabel"}
        elif pa.types.is_list(field.type):
            features[field.name] = {"feature": _value(field.type.value_type), "_type": "List"}
        else:
            features[field.name] = _value(field.type)
    return pa.schema(fields, metadata={_FEATURES: json.dumps({"info": {"features": features}}).encode()})


def _value(kind: pa.DataType) -> dict[str, str]:
    return {"dtype": {"float": "float32"}.get(str(kind), str(kind)), "_type": "Value"}


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read one file, or some of its columns, without Arrow's module for data sets of many files, which takes half a second to import."""
    with pq.ParquetFile(path) as file:
        return file.read(columns=None if columns is None else list(columns))


def numpy_values(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of numbers without nulls, read-only. Arrow's ``to_numpy`` does the same, but first imports pandas: half a second."""
    return np.from_dlpack(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table with the project's row groups and compression."""
    write_batches(path, table.schema, table.to_batches(max_chunksize=ROW_GROUP))


def write_batches(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch]) -> int:
    """Write batches to a Parquet file, one row group each, and return the number of rows.

    The bytes depend on the sizes of the batches: each must have ``ROW_GROUP`` rows, except the last (``rebatch``).
    """
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def rebatch(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of exactly ``ROW_GROUP`` (the last may be shorter), so that outputs do not depend on the reader."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROW_GROUP:
            table = pa.Table.from_batches(waiting, schema).combine_chunks()
            whole = rows - rows % ROW_GROUP
            yield from table.slice(0, whole).to_batches(max_chunksize=ROW_GROUP)
            waiting, rows = table.slice(whole).to_batches(), rows - whole
    if rows:
        yield from pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()
