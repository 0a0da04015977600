"""The kinds of task: what a label is, what a model predicts, and how both are compared.

One class for each kind. Everyone else asks the task, and does not decide by its kind.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuneline.model.tasks.multilabel import Multilabel
from tuneline.model.tasks.task import DECISIONS, Classification, Regression

__all__ = [
    "DECISIONS",
    "TASKS",
    "Classification",
    "Multilabel",
    "Regression",
    "Task",
    "recorded_kind",
    "task_with_names",
    "trained_task",
    "unnamed_task",
]

Task = Classification | Regression | Multilabel
"""A kind of task, with the class names where it has classes."""
TASKS: dict[str, type[Task]] = {kind.kind: kind for kind in (Classification, Regression, Multilabel)}
"""The kinds of task by the value of ``data.task``."""


def unnamed_task(kind: str) -> Task:
    """Return the task of a ``data.task`` whose classes are not known yet."""
    return TASKS[kind].of_outputs(())


def trained_task(task: Task, model: Path) -> Task:
    """Return a task with the decisions of a trained model, which are in the configuration in its folder."""
    config: dict[str, Any] = json.loads((model / "config.json").read_text(encoding="utf-8"))
    return task.with_decisions(config.get(DECISIONS, {}))


def task_with_names(names: Sequence[str] | None, kind: str | None = None) -> Task:
    """Return the task of a record.

    Without a ``kind``, it is a classification with these classes, or a regression without any.
    """
    if kind is not None:
        return TASKS[kind].of_outputs(names or ())
    return Regression() if names is None else Classification(tuple(names))


def recorded_kind(task: Task) -> str | None:
    """Return the kind that a record has beside the class names; ``None`` if these tell it."""
    if task_with_names(task.names) == task:
        return None
    return task.kind
