"""Metrics of predictions: those of the pipeline, those that ``evaluate.metrics`` names, and those of the majority baseline."""

import inspect
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.errors import ParamsError, StageError
from tuneline.files.disk_errors import full_disk
from tuneline.files.schemas import LabelSchema
from tuneline.metrics import Averaging, Task, metrics_for
from tuneline.scores import compute_metric, prediction_metrics, task_of

os.environ.setdefault("HF_UPDATE_DOWNLOAD_COUNTS", "0")  # read when evaluate is imported: no telemetry when a metric is loaded

_NAME = re.compile(r"(?P<path>[^:@]+)(:(?P<config>[^@]+))?(@(?P<revision>.+))?")


@dataclass(frozen=True)
class MetricName:
    """One entry of ``evaluate.metrics``: ``NAME``, ``NAME:CONFIG``, ``NAME@REVISION``, or the path of a folder with such a module.

    A metric of the Hub is code of its author, which runs here: name only what you trust, and pin it.
    """

    path: str
    config: str | None = None
    revision: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an entry.

        Raises:
            ParamsError: It is not of this form.
        """
        match = _NAME.fullmatch(text)
        if match is None:
            raise ParamsError(
                f"evaluate.metrics: {text!r} is not a metric.", "Write NAME, NAME:CONFIG, NAME@REVISION, or the path of a folder."
            )
        return cls(match["path"], match["config"], match["revision"])

    @property
    def is_local(self) -> bool:
        """True if it is a local path, not a name on the Hub."""
        return Path(self.path).exists()


def score(references: NDArray[Any], predictions: NDArray[Any], average: Averaging, others: Sequence[str] = ()) -> dict[str, float]:
    """Compute the metrics of the pipeline, then those of ``others``; of metrics with the same name, the last one counts.

    Args:
        references: Labels of shape ``(rows,)``: int64 classes, or float32 numbers.
        predictions: Same shape and type.
        average: How F1 and similar metrics are averaged: binary or macro.
        others: Entries of ``evaluate.metrics``, loaded by the evaluate library (which takes seconds to import).

    Raises:
        StageError: A metric cannot be loaded, or gives no finite numbers.
    """
    task: Task = "regression" if np.issubdtype(references.dtype, np.floating) else "classification"
    scores = prediction_metrics(task, references, predictions, average)
    names = [MetricName.parse(text) for text in others]
    if names:
        with modules_folder(all(name.is_local for name in names)) as folder:
            for name in names:
                scores.update(_score_one(name, references, predictions, average, folder))
    return scores


@cache
def _own_folder() -> "tempfile.TemporaryDirectory[str]":
    """Return the folder of this process, removed when it ends: Python imports the copied modules from there, once."""
    return tempfile.TemporaryDirectory(prefix="tuneline-metrics-")


@contextmanager
def modules_folder(local: bool) -> Iterator[str | None]:
    """Set the folder to which the library copies modules before it imports them.

    Local modules do not belong in the user's cache, and two simultaneous runs must not share a folder. A metric of the Hub
    stays in the user's cache, so that it works offline the next time.
    """
    if not local:
        yield None
        return
    from evaluate import config

    folder = _own_folder().name
    before = config.HF_MODULES_CACHE
    config.HF_MODULES_CACHE = folder
    sys.path.insert(0, folder)
    _forget_modules()
    try:
        yield folder
    finally:
        config.HF_MODULES_CACHE = before
        sys.path.remove(folder)
        _forget_modules()


def _forget_modules() -> None:
    """Forget the library's package of copied modules: Python would search it in the folder that it was first imported from."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "evaluate_modules"]:
        del sys.modules[name]


def _score_one(
    name: MetricName, references: NDArray[Any], predictions: NDArray[Any], average: str, folder: str | None
) -> Mapping[str, float]:
    import evaluate

    try:
        metric = evaluate.load(name.path, name.config, revision=name.revision, keep_in_memory=True, cache_dir=folder)
    except (OSError, ValueError, ImportError) as error:  # FileNotFoundError and ConnectionError among them
        if full_disk(error):
            raise
        raise StageError(
            f"evaluate.metrics: {name.path!r} cannot be loaded: {str(error).strip().splitlines()[0]}",
            "A name is looked up on the Hub, which must be reachable; a path is a folder with a module of the same name.",
        ) from None
    options = {"average": average} if "average" in inspect.signature(metric._compute).parameters else {}
    try:
        result = metric.compute(references=references, predictions=predictions, **options)
    except (ValueError, TypeError) as error:
        raise StageError(
            f"evaluate.metrics: {name.path!r} cannot score this: {error}", "It must score predictions against references."
        ) from None
    return _numbers(name, result)


def _numbers(name: MetricName, result: Mapping[str, Any]) -> dict[str, float]:
    numbers = {key: float(value) for key, value in result.items() if np.ndim(value) == 0 and not isinstance(value, str)}
    if not numbers or not all(map(np.isfinite, numbers.values())):
        raise StageError(f"evaluate.metrics: {name.path!r} gives no finite numbers: {dict(result)}", "Leave it out.")
    return numbers


def baseline_metrics(
    train: Iterable[NDArray[Any]], labels: NDArray[Any], label_schema: LabelSchema, average: Averaging
) -> dict[str, float]:
    """Return metrics of the majority baseline: always the most frequent class of the train split, or its mean.

    Args:
        train: Labels of the train split in batches, each of shape ``(rows,)``.
        labels: Labels of the reported split, shape ``(rows,)``.
        label_schema: Label schema.
        average: How F1 is averaged.

    Returns:
        ``majority_accuracy`` and ``majority_f1``; for a regression ``mean_mse`` (its correlations are undefined).
    """
    if label_schema.is_regression:
        total, rows = np.sum([(batch.sum(dtype=np.float64), len(batch)) for batch in train], axis=0)
        constant = np.full(len(labels), total / rows)
    else:
        counts = np.sum([np.bincount(batch, minlength=label_schema.outputs) for batch in train], axis=0)
        constant = np.full_like(labels, counts.argmax())
    metrics = [metric for metric in metrics_for(task_of(label_schema)) if metric.baseline]
    return {str(metric.baseline): compute_metric(metric, labels, constant, average) for metric in metrics}
