"""Predictions of one split: their file, and their metrics."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.core.atomic_files import replace_file
from tuneline.core.tables import ROW_GROUP, predictions_schema, write_batches
from tuneline.metrics.scores import prediction_metrics
from tuneline.metrics.table import Averaging
from tuneline.tasks.task import Labels, Task


def write_predictions(
    path: Path,
    labels: NDArray[Any],
    logits: NDArray[np.float32],
    task: Task,
    predictions: Labels | None = None,
) -> None:
    """Write predictions in the order of the rows.

    Labels and predictions have the shape ``(rows, *label_shape)``, logits ``(rows, outputs)``. Without
    ``predictions``, the task makes them from the logits.
    """
    schema = predictions_schema(task)

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
        prediction_column = task.column_of(batch_predictions)
        return pa.record_batch([rows, label_column, lists, prediction_column], schema=schema)

    with replace_file(path) as partial:
        write_batches(partial, schema, map(batch, range(0, len(labels), ROW_GROUP)))


def metrics_of(
    logits: NDArray[np.float32], labels: NDArray[Any], task: Task, f1: Averaging | None = None
) -> dict[str, float]:
    """Return the metrics of predictions of one split, from logits ``(rows, outputs)``, and ``loss``."""
    scores = prediction_metrics(task.metric_kind, labels, task.predictions(logits), task.averaging(f1))
    return {**scores, "loss": task.mean_loss(logits, labels)}
