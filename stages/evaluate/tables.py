"""Tables of the stage: read the reported split, tokenized and as text, and build the table of predictions."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.batches import TokenizedSplit
from tuneline.errors import DataError
from tuneline.files.schemas import UNLABELLED, LabelSchema, read_table
from tuneline.records.source import RawSource
from tuneline.scores import predictions_of


def read_split(path: Path) -> TokenizedSplit:
    """Read the tokenized rows.

    Raises:
        DataError: There are no rows, or some rows have no label.
    """
    split = TokenizedSplit.read(path)
    if len(split) == 0:
        raise DataError(f"{path} has no rows.", "Report on another split (evaluate.split), or give this one rows (data.splits).")
    unlabelled = np.flatnonzero(split.labels == UNLABELLED)
    if len(unlabelled) == len(split) or (len(unlabelled) and not split.label_schema.is_regression):  # -1 can be a number to predict
        raise DataError(
            f"{path}: {len(unlabelled)} of {len(split)} rows have no label, the first is row {unlabelled[0]}.",
            "Report on a split with labels: evaluate.split.",
        )
    return split


def read_texts(path: Path, text_columns: Sequence[str], rows: int) -> list[list[str]]:
    """Read the texts of the same rows, one list for each column.

    Args:
        path: The raw split.
        text_columns: One or two names.
        rows: Required number of rows.

    Raises:
        DataError: A column is missing, or the number of rows differs.
    """
    known = pq.read_schema(path).names
    missing = [name for name in text_columns if name not in known]
    if missing:
        raise DataError(f"{path} has no column {missing[0]!r}; it has {', '.join(known)}.", "Check data.text_columns.")
    table = read_table(path, text_columns)
    if table.num_rows != rows:
        raise DataError(f"{path} has {table.num_rows} rows, the tokenized split has {rows}.", "Run `dvc repro tokenize`.")
    return [table[name].to_pylist() for name in text_columns]


def read_origin(path: Path, source: Path, split: str) -> tuple[str, NDArray[np.int64]]:
    """Read the specification of the split, as in ``data.splits``, and the row numbers in its source.

    Args:
        path: The raw split.
        source: ``data/raw/source.json``; without it, the specification is empty.
        split: Name of the split.
    """
    record = RawSource.read_if_exists(source)
    return record.splits[split].specification if record else "", read_table(path, ["idx"])["idx"].to_numpy()


def predictions_table(split: TokenizedSplit, logits: NDArray[np.float32]) -> pa.Table:
    """Build ``reports/predictions.parquet``, one row for each row of the reported split, in its order.

    Args:
        split: Rows that were predicted.
        logits: Shape ``(rows, outputs)``.

    Returns:
        ``idx`` (position in the split's file), ``label``, ``logits``, ``prediction``; class names in the schema, as the datasets
        library writes them.
    """
    columns = {
        "idx": np.arange(len(split), dtype=np.int64),
        "label": split.labels,
        "logits": pa.FixedSizeListArray.from_arrays(pa.array(logits.ravel()), logits.shape[1]).cast(pa.list_(pa.float32())),
        "prediction": predictions_of(logits, split.label_schema),
    }
    return pa.table(columns, schema=predictions_schema(split.label_schema))


def predictions_schema(labels: LabelSchema) -> pa.Schema:
    """Return the schema of the table of predictions."""
    fields = [
        pa.field("idx", pa.int64()),
        pa.field("label", labels.type),
        pa.field("logits", pa.list_(pa.float32())),
        pa.field("prediction", labels.type),
    ]
    label = {"dtype": "float32", "_type": "Value"} if labels.names is None else {"names": list(labels.names), "_type": "ClassLabel"}
    features = {
        "idx": {"dtype": "int64", "_type": "Value"},
        "label": label,
        "logits": {"feature": {"dtype": "float32", "_type": "Value"}, "_type": "List"},
        "prediction": label,
    }
    return pa.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": features}})})
