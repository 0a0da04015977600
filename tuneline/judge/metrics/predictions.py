"""Predictions on labelled rows, and the files that have them for the rows of one split.

``reports/predictions.parquet`` and ``reports/validation.parquet`` have labels, logits and predictions of the
trained model; ``reports/baselines/SPLIT.parquet`` has what simple models predict. Whoever reads one gets
arrays in the order of the split, with the task that the predictions are of.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from tuneline.judge.metrics.scores import averaging, compute_metric, prediction_metrics
from tuneline.judge.metrics.stats import (
    LEVEL,
    RESAMPLES,
    Difference,
    Estimate,
    metric_interval,
    paired_difference,
)
from tuneline.judge.metrics.table import Metric
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import array_of, column_of, label_type, read_task, stored_as
from tuneline.model.tasks.task import Labels, Logits

ClusterIds = NDArray[Any]
"""Cluster of each row, of shape ``(rows,)``: rows of one cluster are not independent of each other."""
ROW = "idx"
"""Column of the number of the row in its split."""


def _no_logits() -> Logits:
    return np.empty((0, 0), np.float32)


@dataclass(frozen=True)
class Predictions:
    """Labelled rows with the predictions of one model.

    Attributes:
        labels: Labels of shape ``(rows, *Task.label_shape)``.
        values: Predictions of the same shape.
        task: The task, with the decisions of the model.
        clusters: Cluster of each row; ``None``: each row is on its own.
        logits: Outputs of the model, float32 of shape ``(rows, outputs)``; empty where only its predictions
            are known.
        ids: Id of each row, by which it is found in another split; empty where they are not known.
    """

    labels: Labels
    values: Labels
    task: Task
    clusters: ClusterIds | None = None
    logits: Logits = field(default_factory=_no_logits)
    ids: NDArray[Any] = field(default_factory=lambda: np.empty(0, dtype=object))

    @classmethod
    def of_logits(
        cls, labels: Labels, logits: Logits, task: Task, clusters: ClusterIds | None = None
    ) -> Self:
        """Return what the task makes of logits."""
        return cls(labels, task.predictions(logits), task, clusters, logits)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def errors(self) -> NDArray[np.bool_]:
        """Which predictions are errors, of shape ``(rows,)``."""
        return self.task.errors(self.values, self.labels)

    @property
    def independent_rows(self) -> int:
        """Number of rows, of which those of one cluster count once."""
        if self.clusters is None:
            return len(self)
        return len(np.unique(self.clusters))

    def take(self, rows: NDArray[Any]) -> Self:
        """Return chosen rows, numbers or a mask."""
        taken = {}
        for name in ("labels", "values", "clusters", "logits", "ids"):
            column = getattr(self, name)
            if column is not None and len(column):  # else it is not known
                taken[name] = column[rows]
        return replace(self, **taken)

    def translated(self, task: Task) -> Self:
        """Return labels and predictions as another task of this kind has them, without logits.

        The order of the classes may differ. A class that the other task does not have is -1.
        """
        labels = task.translated(self.labels, self.task)
        values = task.translated(self.values, self.task)
        return replace(self, labels=labels, values=values, task=task, logits=_no_logits())

    def scores(self) -> dict[str, float]:
        """Return the metrics of training that predictions suffice to compute, by name."""
        return prediction_metrics(self.task.judged_as, self.labels, self.values, averaging(self.task))

    def loss(self) -> float:
        """Return the mean loss of the logits, computed in float64."""
        losses = np.empty(len(self))
        for start in range(0, len(self), ROW_GROUP):
            rows = slice(start, start + ROW_GROUP)
            losses[rows] = self.task.losses(self.logits[rows], self.labels[rows])
        return float(np.mean(losses))

    def score(self, metric: Metric) -> float:
        """Return a metric of the predictions."""
        return compute_metric(metric, self.labels, self.values, averaging(self.task))

    def interval(self, metric: Metric, seed: int = 0) -> Estimate:
        """Return a metric with its interval.

        Args:
            metric: A metric with ``resampled``.
            seed: Seed of the bootstrap.
        """
        return metric_interval(
            metric,
            self.labels,
            self.values,
            average=averaging(self.task),
            seed=seed,
            clusters=self.clusters,
        )

    def difference(
        self,
        metric: Metric,
        values: Labels,
        *,
        seed: int = 0,
        resamples: int = RESAMPLES,
        level: float = LEVEL,
    ) -> Difference:
        """Return the difference of a metric from other predictions of the same rows, with its interval.

        Args:
            metric: A metric with ``resampled``.
            values: The predictions of the other model, of the shape of ``labels``.
            seed: Seed of the resampling.
            resamples: Number of resamples.
            level: Confidence level of the interval.
        """
        return paired_difference(
            metric,
            self.labels,
            self.values,
            values,
            average=averaging(self.task),
            seed=seed,
            resamples=resamples,
            level=level,
            clusters=self.clusters,
        )


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


def write_predictions(path: Path, predictions: Predictions) -> None:
    """Write predictions with their logits, in the order of the rows."""
    task = predictions.task
    clusters = predictions.clusters
    schema = predictions_schema(task, clustered=clusters is not None)

    def batch(start: int) -> pa.RecordBatch:
        rows = slice(start, start + ROW_GROUP)
        labels = predictions.labels[rows]
        logits = predictions.logits[rows]
        # A list column is made of one flat array, without a copy of each row.
        lists = pa.FixedSizeListArray.from_arrays(pa.array(logits.ravel()), logits.shape[1])
        columns = [
            pa.array(np.arange(start, start + len(labels))),
            column_of(task, labels),
            lists.cast(pa.list_(pa.float32())),
            column_of(task, predictions.values[rows]),
        ]
        if clusters is not None:
            columns.append(pa.array(clusters[rows]))
        return pa.record_batch(columns, schema=schema)

    with replace_file(path) as partial:
        write_batches(partial, schema, map(batch, range(0, len(predictions), ROW_GROUP)))


def clusters_of_split(split: str, rows: int) -> ClusterIds | None:
    """Read the cluster of each row of a split; ``None`` where the data checks have not run.

    Raises:
        DataError: They are of a split with another number of rows.
    """
    return read_numbers(split_file(CLUSTERS, split), CLUSTER, rows, made_by="validate")


def read_predictions(path: Path, rows: int | None = None, *, with_logits: bool = False) -> Predictions:
    """Read labels, predictions and clusters; the logits, which take most of the file, if they are needed.

    Raises:
        DataError: It is not a file of predictions, or does not have exactly one prediction for each
            of the ``rows`` of the split; without ``rows``, for as many as it has.
    """
    columns = [ROW, "label", "prediction"]
    if with_logits:
        columns.append("logits")
    try:
        if CLUSTER in pq.read_schema(path).names:
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

    task = read_task(table.schema, "label")
    predictions = Predictions(array_of(task, table["label"]), array_of(task, table["prediction"]), task)
    if CLUSTER in columns:
        predictions = replace(predictions, clusters=numpy_values(table[CLUSTER]))
    if with_logits:
        numbers = numpy_values(table["logits"].combine_chunks().flatten())
        try:
            logits = numbers.reshape(len(predictions), -1).astype(np.float32, copy=False)
        except ValueError:  # rows have more and fewer logits
            raise _other_file(path) from None
        predictions = replace(predictions, logits=logits)
    return predictions


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
