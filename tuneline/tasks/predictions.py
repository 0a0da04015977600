"""Predictions of one split: their file, and their metrics."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.core.atomic_files import replace_file
from tuneline.core.paths import CLUSTERS, split_file
from tuneline.core.tables import (
    CLUSTER,
    ROW_GROUP,
    numpy_values,
    predictions_schema,
    read_numbers,
    read_table,
    write_batches,
)
from tuneline.tasks.task import Labels, Task


def write_predictions(
    path: Path,
    labels: NDArray[Any],
    logits: NDArray[np.float32],
    task: Task,
    *,
    predictions: Labels | None = None,
    clusters: NDArray[np.int32] | None = None,
) -> None:
    """Write predictions in the order of the rows.

    Labels and predictions have the shape ``(rows, *label_shape)``, logits ``(rows, outputs)``, and the
    clusters of the rows, if they are known, ``(rows,)``. Without ``predictions``, the task makes them from
    the logits.
    """
    schema = predictions_schema(task, clustered=clusters is not None)

    def batch(start: int) -> pa.RecordBatch:
        batch_labels = labels[start:][:ROW_GROUP]
        batch_logits = logits[start:][:ROW_GROUP]
        numbers = pa.array(batch_logits.ravel())
        # A list column is made of one flat array, without a copy of each row.
        lists = pa.FixedSizeListArray.from_arrays(numbers, batch_logits.shape[1]).cast(pa.list_(pa.float32()))

        rows = pa.array(np.arange(start, start + len(batch_labels)))
        label_column = task.column_of(batch_labels)
        if predictions is None:
            batch_predictions = task.predictions(batch_logits)
        else:
            batch_predictions = predictions[start:][:ROW_GROUP]
        columns = [rows, label_column, lists, task.column_of(batch_predictions)]
        if clusters is not None:
            columns.append(pa.array(clusters[start:][:ROW_GROUP]))
        return pa.record_batch(columns, schema=schema)

    with replace_file(path) as partial:
        write_batches(partial, schema, map(batch, range(0, len(labels), ROW_GROUP)))


def clusters_of_split(split: str, rows: int) -> NDArray[Any] | None:
    """Read the cluster of each row of a split; ``None`` where the data checks have not run.

    Raises:
        DataError: They are of a split with another number of rows.
    """
    return read_numbers(split_file(CLUSTERS, split), CLUSTER, rows, made_by="validate")


def read_predictions(path: Path, columns: Sequence[str]) -> pa.Table:
    """Read columns of predictions, and the clusters of their rows if they were written with them."""
    if CLUSTER in pq.read_schema(path).names:
        columns = [*columns, CLUSTER]
    return read_table(path, columns)


def clusters_of(table: pa.Table) -> NDArray[Any] | None:
    """Return the cluster of each row of predictions; ``None`` without: each row counts on its own."""
    if CLUSTER not in table.column_names:
        return None
    return numpy_values(table[CLUSTER])
