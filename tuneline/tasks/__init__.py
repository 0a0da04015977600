"""The kinds of task: what a label is, what a model predicts, and how both are compared.

One class for each kind, behind the interface ``Task``. Everyone else asks the task, and does not decide by
its kind.
"""

from tuneline.tasks.classification import Classification
from tuneline.tasks.multilabel import Multilabel
from tuneline.tasks.reading import (
    TASKS,
    recorded_kind,
    register,
    task_with_names,
    trained_task,
    unnamed_task,
)
from tuneline.tasks.regression import Regression
from tuneline.tasks.task import DECISIONS, Task

__all__ = [
    "DECISIONS",
    "TASKS",
    "Classification",
    "Multilabel",
    "Regression",
    "Task",
    "recorded_kind",
    "register",
    "task_with_names",
    "trained_task",
    "unnamed_task",
]
