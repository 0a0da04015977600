"""Which task a record or a parameter is about."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuneline.core.task_kinds import SET_KINDS, TASK_KINDS
from tuneline.tasks.classification import Classification
from tuneline.tasks.multilabel import Multilabel
from tuneline.tasks.regression import Regression
from tuneline.tasks.task import DECISIONS, Task

TASKS: dict[str, type[Task]] = {kind.kind: kind for kind in (Classification, Regression, Multilabel)}
"""The kinds of task by the value of ``data.task``."""


def register(task: type[Task]) -> None:
    """Add a kind of task: ``data.task`` can name it, and tables and records of it are read."""
    TASKS[task.kind] = task
    if task.kind not in TASK_KINDS:
        TASK_KINDS.append(task.kind)
    if task.has_classes and not task.one_class and task.kind not in SET_KINDS:
        SET_KINDS.append(task.kind)


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
