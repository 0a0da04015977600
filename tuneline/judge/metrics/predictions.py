"""The files of predictions for the rows of one split.

``reports/predictions.parquet`` and ``reports/validation.parquet`` have labels, logits and predictions of the
trained model; ``reports/baselines/SPLIT.parquet`` has what simple models predict. Whoever reads one gets
arrays in the order of the split, with the task that the predictions are of.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.core.paths import CLUSTERS, split_file
from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.files import replace_file
from tuneline.core.stage.tables import (
    CLUSTER,
    ROW_GROUP,
    numpy_values,
    read_numbers,
    read_table,
    with_features,
    write_batches,
)
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import array_of, column_of, label_type
from tuneline.model.tasks.schemas import read_task, stored_as
from tuneline.model.tasks.task import Labels, Logits

ClusterIds = NDArray[Any]
"""Cluster of each row, of shape ``(rows,)``: rows of one cluster are not independent of each other."""
ROW = "idx"
"""Column of the number of the row in its split."""


@dataclass(frozen=True)
class Predictions:
    """Predictions of one model, in the order of the rows.

    Attributes:
        labels: Labels of shape ``(rows, *Task.label_shape)``.
        values: Predictions of the same shape.
        task: The task, with the decisions of the model.
        clusters: Cluster of each row; ``None``: each row is on its own.
    """

    labels: Labels
    values: Labels
    task: Task
    clusters: ClusterIds | None = None

    def take(self, rows: NDArray[Any]) -> Self:
        """Return chosen rows, numbers or a mask."""
        clusters = None
        if self.clusters is not None:
            clusters = self.clusters[rows]
        return replace(self, labels=self.labels[rows], values=self.values[rows], clusters=clusters)

    def translated(self, task: Task) -> Self:
        """Return labels and predictions as another task of this kind has them.

        The order of the classes may differ. A class that the other task does not have is -1.
        """
        labels = task.translated(self.labels, self.task)
        return replace(self, labels=labels, values=task.translated(self.values, self.task), task=task)


@dataclass(frozen=True)
class PredictedLogits:
    """Logits of one model, in the order of the rows.

    Attributes:
        labels: Labels of shape ``(rows, *Task.label_shape)``.
        logits: float32 of shape ``(rows, outputs)``.
        task: The task, with the decisions of the model.
        clusters: Cluster of each row; ``None``: each row is on its own.
    """

    labels: Labels
    logits: Logits
    task: Task
    clusters: ClusterIds | None = None

    @property
    def predicted(self) -> Labels:
        """Predictions, of the shape of ``labels``."""
        return self.task.predictions(self.logits)

    @property
    def errors(self) -> NDArray[np.bool_]:
        """Which predictions are errors, of shape ``(rows,)``."""
        return self.task.errors(self.predicted, self.labels)


def predictions_schema(task: Task, clustered: bool = False) -> pa.Schema:
    """Return the schema of predictions of the trained model.

    Its columns are ``idx`` (row number in the split), ``label``, ``logits``, ``prediction`` and, if it is
    known, ``cluster``.
    """
    fields = [
        pa.field(ROW, pa.int64()),
        pa.field("label", label_type(task)),
        pa.field("logits", pa.list_(pa.float32())),
        pa.field("prediction", label_type(task)),
    ]
    if clustered:
        fields.append(pa.field(CLUSTER, pa.int32()))
    return with_features(fields, stored_as(task), ("label", "prediction"))


def write_predictions(
    path: Path,
    labels: Labels,
    logits: Logits,
    task: Task,
    *,
    predictions: Labels | None = None,
    clusters: ClusterIds | None = None,
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
        label_column = column_of(task, batch_labels)
        if predictions is None:
            batch_predictions = task.predictions(batch_logits)
        else:
            batch_predictions = predictions[start:][:ROW_GROUP]
        columns = [rows, label_column, lists, column_of(task, batch_predictions)]
        if clusters is not None:
            columns.append(pa.array(clusters[start:][:ROW_GROUP]))
        return pa.record_batch(columns, schema=schema)

    with replace_file(path) as partial:
        write_batches(partial, schema, map(batch, range(0, len(labels), ROW_GROUP)))


def clusters_of_split(split: str, rows: int) -> ClusterIds | None:
    """Read the cluster of each row of a split; ``None`` where the data checks have not run.

    Raises:
        DataError: They are of a split with another number of rows.
    """
    return read_numbers(split_file(CLUSTERS, split), CLUSTER, rows, made_by="validate")


def read_predictions(path: Path, rows: int | None = None) -> Predictions:
    """Read labels and predictions, without the logits, which take most of the file.

    Raises:
        DataError: It is not a file of predictions, or does not have exactly one prediction for each
            of the ``rows`` of the split; without ``rows``, for as many as it has.
    """
    columns = _read_columns(path, "prediction", rows)
    values = array_of(columns.task, columns.table["prediction"])
    return Predictions(columns.labels, values, columns.task, columns.clusters)


def read_logits(path: Path, rows: int | None = None) -> PredictedLogits:
    """Read labels and logits.

    Raises:
        DataError: As of ``read_predictions``.
    """
    columns = _read_columns(path, "logits", rows)
    numbers = numpy_values(columns.table["logits"].combine_chunks().flatten())
    try:
        logits = numbers.reshape(len(columns.labels), -1).astype(np.float32, copy=False)
    except ValueError:  # rows have more and fewer logits
        raise _other_file(path) from None
    return PredictedLogits(columns.labels, logits, columns.task, columns.clusters)


@dataclass(frozen=True)
class _Columns:
    """Columns of a file of predictions, in the order of the split."""

    table: pa.Table
    task: Task

    @property
    def labels(self) -> Labels:
        return array_of(self.task, self.table["label"])

    @property
    def clusters(self) -> ClusterIds | None:
        if CLUSTER not in self.table.column_names:
            return None
        return numpy_values(self.table[CLUSTER])


def _read_columns(path: Path, column: str, rows: int | None) -> _Columns:
    """Read the labels, the clusters if they were written, and one more column."""
    columns = [ROW, "label", column]
    try:
        names = pq.read_schema(path).names
        if CLUSTER in names:
            columns.append(CLUSTER)
        table = read_table(path, columns)
    except pa.ArrowException:
        raise _other_file(path) from None
    if not set(columns) <= set(table.column_names):
        raise _other_file(path)

    # stages write the rows in order: then there is nothing to sort
    order = numpy_values(table[ROW])
    expected = np.arange(len(table) if rows is None else rows)
    if not np.array_equal(order, expected):
        if not np.array_equal(np.sort(order), expected):
            raise DataError(
                f"{path} does not have exactly one prediction for each of the {len(expected):,} rows.",
                "Run `dvc repro`.",
            )
        table = table.take(pa.array(np.argsort(order)))
    return _Columns(table, read_task(table.schema, "label"))


def _other_file(path: Path) -> DataError:
    return DataError(f"{path} is no file of predictions.", "Write it again: `dvc repro`.")


def write_baselines(
    path: Path, task: Task, models: Sequence[str], batches: Iterable[Mapping[str, Labels]]
) -> None:
    """Write predictions of simple models, one column for each.

    Args:
        path: The file, which is not complete before the last batch is written.
        task: The task.
        models: Names of the models, in the order of the columns.
        batches: Predictions of the next rows by the name of the model, each ``(rows, *label_shape)``.
    """
    schema = with_features([pa.field(name, label_type(task)) for name in models], stored_as(task), models)

    def batch(predictions: Mapping[str, Labels]) -> pa.RecordBatch:
        return pa.record_batch([column_of(task, predictions[name]) for name in models], schema=schema)

    write_batches(path, schema, map(batch, batches))


def read_baselines(path: Path, rows: int, task: Task) -> dict[str, Labels]:
    """Read the predictions of the simple models for the reported split, by name.

    Raises:
        DataError: They are of a split with another number of rows.
    """
    table = read_table(path)
    # Rows of another number are of other data, or of another reported split.
    if len(table) != rows:
        raise DataError(
            f"{path} has {len(table):,} rows, and the reported split has {rows:,}.",
            "Run `dvc repro baseline`.",
        )
    return {name: array_of(task, table[name]) for name in table.column_names}
