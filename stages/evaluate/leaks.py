"""The primary metric without leaked rows: those that repeat or resemble a row of an earlier split, as the stage ``validate`` found."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.errors import DataError
from tuneline.files.schemas import ROW_GROUP, LabelSchema
from tuneline.leaks import leak_difference
from tuneline.metrics import LEAKED_ROWS, Averaging, primary_metric
from tuneline.scores import task_of
from tuneline.stats import metric_interval

CHECKS_OF_LEAKS = ("leakage", "near_duplicates")


def leaked_rows(folder: Path, split: str, rows: int) -> NDArray[np.bool_]:
    """Return which rows of a split repeat or resemble a row of another split, shape ``(rows,)``.

    Args:
        folder: ``reports/checks/rows/``. A check that names no row has no file.
        split: Name of the split.
        rows: Number of its rows.

    Raises:
        DataError: The file is of other data.
    """
    leaked = np.zeros(rows, dtype=bool)
    for path in (folder / f"{check}.parquet" for check in CHECKS_OF_LEAKS):
        if path.exists():
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(ROW_GROUP, columns=["split", "row", "other_split"]):
                    inside = pc.and_(pc.equal(batch["split"], split), pc.not_equal(batch["other_split"], split))
                    named = batch["row"].filter(inside).to_numpy()
                    if named.max(initial=-1) >= rows:
                        raise DataError(f"{path} has rows of other data than the split {split!r}.", "Run `dvc repro validate`.")
                    leaked[named] = True
    return leaked


def leak_metrics(
    labels: NDArray[Any],
    predictions: NDArray[Any],
    leaked: NDArray[np.bool_],
    label_schema: LabelSchema,
    *,
    average: Averaging,
    seed: int,
) -> dict[str, float]:
    """Return the number of leaked rows and, if there are some and others, the primary metric without them, with its intervals.

    Args:
        labels: Labels of the reported split, shape ``(rows,)``.
        predictions: Predictions of the model, same shape.
        leaked: Result of ``leaked_rows``.
        label_schema: Label schema.
        average: How F1 is averaged.
        seed: Seed of the bootstrap.
    """
    metrics: dict[str, float] = {LEAKED_ROWS: int(leaked.sum())}
    metric = primary_metric(task_of(label_schema))
    if not leaked.any() or leaked.all():
        return metrics
    difference = leak_difference(metric, labels, predictions, leaked, average=average, seed=seed)
    estimate = metric_interval(metric, labels[~leaked], predictions[~leaked], average=average, seed=seed)
    if estimate is None:
        raise ValueError(f"{metric.name} has no interval; the first metric of a task in tuneline/metrics.py needs one")
    without = dict(zip(metric.without_leaks, (estimate.value, estimate.low, estimate.high), strict=True))
    return metrics | without | dict(zip(metric.from_leaks, (difference.low, difference.high), strict=True))
