"""Metrics of the user: functions of logits and labels in the folder ``project/``."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.errors import ParamsError
from tuneline.files.schemas import LabelSchema
from tuneline.functions import ProjectFunction, load_function
from tuneline.metrics import METRIC_TABLE
from tuneline.params.functions import FunctionName

Logits = NDArray[np.float32]
_ROWS = 6
"""Rows of the data with which a metric is tried."""


@dataclass(frozen=True)
class CustomMetric:
    """A metric of the user, ``def NAME(logits, labels) -> float``.

    The function gets the whole split as NumPy arrays: logits, float32 of shape ``(rows, classes)``, and labels, int64 of shape
    ``(rows,)``. In a regression both are float32 of shape ``(rows,)``. Its attribute ``greater_is_better`` is False for a cost.
    """

    function: ProjectFunction
    greater_is_better: bool

    @property
    def name(self) -> str:
        """Key in ``metrics/*.json``: the name of the function."""
        return self.function.name.function

    def compute(self, logits: Logits, labels: NDArray[Any]) -> float:
        """Return the metric of a split.

        Args:
            logits: Shape ``(rows, outputs)``.
            labels: Shape ``(rows,)``.

        Raises:
            ParamsError: The function fails, or does not return one finite number.
        """
        outputs = logits[:, 0] if logits.shape[1] == 1 else logits
        value = self.function(outputs.copy(), labels.copy())  # the function may change its arguments
        if np.ndim(value) != 0 or not isinstance(value, int | float | np.number) or not math.isfinite(value):
            found = f"an array of shape {np.shape(value)}" if np.ndim(value) else repr(value)
            problem = f"returns {found} for {len(labels)} rows, not one finite number."
            raise self.function.error(problem, "Return a float, also if a class is absent.")
        return float(value)


def load_metric(parameter: str, name: FunctionName, labels: LabelSchema) -> CustomMetric:
    """Import a metric, and try it on a few rows.

    Args:
        parameter: Parameter that names it.
        name: Its name.
        labels: Label schema of the data.

    Raises:
        ParamsError: It cannot be imported or called, or does not return one finite number.
    """
    function = load_function(parameter, name)
    if function.name.function in (*METRIC_TABLE, "rows"):
        raise ParamsError(f"{parameter}: {function.name} has the name of a metric of the pipeline.", "Rename the function.")
    greater_is_better = getattr(function.target, "greater_is_better", True)
    if not isinstance(greater_is_better, bool):
        raise function.error(f"has greater_is_better = {greater_is_better!r}.", "Set it to True or False.")
    metric = CustomMetric(function, greater_is_better)
    metric.compute(*_example(labels))
    return metric


def _example(labels: LabelSchema) -> tuple[Logits, NDArray[Any]]:
    """Return logits and labels of a few rows, of several classes and with right and wrong predictions."""
    logits = np.random.default_rng(0).normal(size=(_ROWS, labels.outputs)).astype(np.float32)
    rows = np.arange(_ROWS)
    return logits, rows.astype(np.float32) if labels.is_regression else rows % labels.outputs
