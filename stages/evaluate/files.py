"""Files of the stage: the reported split, tokenized and as text; the table of predictions; the data of the plots in dvc.yaml."""

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.batches import TokenizedSplit
from tuneline.curves import Columns, calibration, precision_recall_curve, probabilities, roc_curve
from tuneline.errors import DataError
from tuneline.files.schemas import UNLABELLED, LabelSchema, read_table
from tuneline.records.evaluation import Slices
from tuneline.records.source import RawSource
from tuneline.scores import predictions_of

SCATTERED = 2_000
"""Most points of a scatter plot, evenly spaced rows."""


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


def write_plots(folder: Path, logits: NDArray[np.float32], labels: NDArray[Any], label_schema: LabelSchema) -> None:
    """Write every plot of one split. Plots of the other task get a header and no rows: DVC warns of a missing file.

    Args:
        folder: Folder of the plots.
        logits: Shape ``(rows, outputs)``.
        labels: Shape ``(rows,)``.
        label_schema: Label schema.
    """
    if label_schema.is_regression:
        every = -(-len(labels) // SCATTERED)
        write_scatter(folder, labels[::every], logits[::every, 0])
        write_class_plots(folder, np.empty((0, 1), dtype=np.float32), np.empty(0, dtype=np.int64), ())
    else:
        write_scatter(folder, np.empty(0), np.empty(0))
        write_class_plots(folder, logits, labels, label_schema.names or ())


def write_scatter(folder: Path, actual: NDArray[Any], predicted: NDArray[Any]) -> None:
    """Write the plot of a regression."""
    write_columns(folder / "scatter.csv", {"actual": actual, "predicted": predicted})


def write_class_plots(folder: Path, logits: NDArray[np.float32], labels: NDArray[Any], names: Sequence[str]) -> None:
    """Write the plots of a classification."""
    named = np.array(names, dtype=object)
    write_rows(folder / "confusion.csv", ("actual", "predicted"), zip(named[labels], named[logits.argmax(axis=1)], strict=True))
    probability = probabilities(logits)
    write_columns(folder / "roc.csv", roc_curve(probability, labels))
    write_columns(folder / "precision_recall.csv", precision_recall_curve(probability, labels))
    write_columns(folder / "calibration.csv", calibration(probability, labels))


def write_slices_plot(folder: Path, report: Slices) -> None:
    """Write the score of each slice."""
    rows = [(f"{one.by}: {one.name}", f"{report.value(one):.6g}", one.rows) for one in report.slices]
    write_rows(folder / "slices.csv", ("slice", "score", "rows"), rows)


def write_columns(path: Path, columns: Columns | dict[str, NDArray[Any]]) -> None:
    """Write numbers, with 6 significant digits."""
    write_rows(path, list(columns), ([f"{value:.6g}" for value in row] for row in zip(*columns.values(), strict=True)))


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV with a header."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
