"""What the data checks demand of labels, by kind of task."""

from functools import singledispatch
from typing import Any

import numpy as np

from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.named_classes import NamedClasses
from tuneline.tasks.task import Labels


@singledispatch
def names_text(task: Task) -> str:
    """The class names in one line, or what labels are instead."""
    raise NotImplementedError(task.kind)


@names_text.register(NamedClasses)
def _(task: NamedClasses) -> str:
    """The names."""
    return ", ".join(task.names)


@names_text.register(Regression)
def _(_task: Regression) -> str:
    """Labels are numbers."""
    return "numbers"


@singledispatch
def label_limits(task: Task) -> dict[str, Any]:
    """Limits of a column of ``codes``, by what the data checks limit."""
    raise NotImplementedError(task.kind)


@label_limits.register(Classification)
def _(task: Classification) -> dict[str, Any]:
    """The class ids."""
    return {"class_ids": list(range(task.outputs))}


@label_limits.register(Multilabel)
def _(_task: Multilabel) -> dict[str, Any]:
    """The code of no label, the smallest one: a missing or an unknown label has a negative one."""
    return {"smallest_code": 0}


@label_limits.register(Regression)
def _(_task: Regression) -> dict[str, Any]:
    """There are none."""
    return {}


@singledispatch
def label_tolerance(task: Task, labels: Labels) -> float:
    """Return by how much labels of the same text may differ without a contradiction."""
    raise NotImplementedError(task.kind)


@label_tolerance.register(NamedClasses)
def _(_task: NamedClasses, _labels: Labels) -> float:
    """Return 0: two labels are the same or not."""
    return 0.0


@label_tolerance.register(Regression)
def _(_task: Regression, labels: Labels) -> float:
    """Return the deviation of the labels."""
    return float(np.nanstd(labels))
