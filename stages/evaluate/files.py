"""Files of the stage: the reported split; its logits and the table of predictions; the data of the plots in dvc.yaml."""

import csv
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.batches import TokenizedSplit
from tuneline.curves import Columns, Softmax, calibration, precision_recall_curve, roc_curve
from tuneline.errors import DataError
from tuneline.files import replace_file
from tuneline.files.schemas import LABELS, ROW_GROUP, UNLABELLED, LabelSchema, numpy_values, write_batches
from tuneline.files.shards import SplitReader
from tuneline.records.evaluation import Slices
from tuneline.records.source import RawSource
from tuneline.scores import predictions_of

SCATTERED = 2_000
"""Most points of a scatter plot, evenly spaced rows."""


def read_split(rows: SplitReader) -> TokenizedSplit:
    """Read the tokenized rows.

    Raises:
        DataError: There are no rows, or some rows have no label.
    """
    split = TokenizedSplit.read(rows)
    if len(split) == 0:
        raise DataError(f"{rows.name} has no rows.", "Report on another split (evaluate.split), or give this one rows (data.splits).")
    unlabelled = np.flatnonzero(split.labels == UNLABELLED)
    if len(unlabelled) == len(split) or (len(unlabelled) and not split.label_schema.is_regression):  # -1 can be a number to predict
        raise DataError(
            f"{rows.name}: {len(unlabelled)} of {len(split)} rows have no label, the first is row {unlabelled[0]}.",
            "Report on a split with labels: evaluate.split.",
        )
    return split


def read_label_batches(rows: SplitReader) -> Iterator[NDArray[Any]]:
    """Yield the labels of a split in batches, each of shape ``(rows,)``."""
    for batch in rows.batches([LABELS]):
        yield numpy_values(batch[LABELS])


def read_origin(raw: SplitReader, source: Path) -> tuple[str, NDArray[np.int64]]:
    """Read the specification of the split, as in ``data.splits``, and the row numbers in its source.

    Args:
        raw: The raw split.
        source: ``data/raw/source.json``; without it, the specification is empty.
    """
    record = RawSource.read_if_exists(source)
    return record.splits[raw.split].specification if record else "", numpy_values(raw.read(["idx"])["idx"])


@contextmanager
def mapped_logits(folder: Path, rows: int, outputs: int) -> Iterator[NDArray[np.float32]]:
    """Yield an empty array of shape ``(rows, outputs)``, mapped to a file without a name: the system writes and evicts its pages.

    Args:
        folder: Where the file takes space, until the block or the process ends.
        rows: Number of rows, at least 1.
        outputs: Number of outputs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        os.posix_fallocate(file.fileno(), 0, 4 * rows * outputs)  # else a full disk would kill the process when it writes a page
        yield np.asarray(np.memmap(file, np.float32, "r+", shape=(rows, outputs)))


def write_predictions(path: Path, split: TokenizedSplit, logits: NDArray[np.float32]) -> None:
    """Write ``reports/predictions.parquet``, one row for each row of the reported split, in its order.

    Its columns: ``idx`` (row number in the split), ``label``, ``logits``, ``prediction``; class names in the schema, as the datasets
    library writes them.

    Args:
        path: The file.
        split: Rows that were predicted.
        logits: Shape ``(rows, outputs)``.
    """
    starts = range(0, len(split), ROW_GROUP)
    batches = (_predictions(start, split.labels[start:][:ROW_GROUP], logits[start:][:ROW_GROUP], split.label_schema) for start in starts)
    with replace_file(path) as partial:
        write_batches(partial, predictions_schema(split.label_schema), batches)


def _predictions(start: int, labels: NDArray[Any], logits: NDArray[np.float32], label_schema: LabelSchema) -> pa.RecordBatch:
    columns = [
        pa.array(np.arange(start, start + len(labels), dtype=np.int64)),
        pa.array(labels),
        pa.FixedSizeListArray.from_arrays(pa.array(logits.ravel()), logits.shape[1]).cast(pa.list_(pa.float32())),
        pa.array(predictions_of(logits, label_schema)),
    ]
    return pa.record_batch(columns, schema=predictions_schema(label_schema))


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
    write_rows(folder / "confusion.csv", ("actual", "predicted"), _confused(logits, labels, names))
    probability = Softmax.of(logits)
    write_columns(folder / "roc.csv", roc_curve(probability, labels))
    write_columns(folder / "precision_recall.csv", precision_recall_curve(probability, labels))
    write_columns(folder / "calibration.csv", calibration(probability, labels))


def _confused(logits: NDArray[np.float32], labels: NDArray[Any], names: Sequence[str]) -> Iterator[Sequence[str]]:
    named = np.array(names, dtype=object)
    for start in range(0, len(labels), ROW_GROUP):
        rows = slice(start, start + ROW_GROUP)
        yield from zip(named[labels[rows]], named[logits[rows].argmax(axis=1)], strict=True)


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
