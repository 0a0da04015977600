"""The names of the kinds of task, without the libraries that ``tuneline/model/tasks`` imports."""

from typing import Literal

TaskKind = Literal["classification", "regression", "multilabel"]
"""What a label is: a class, a number, or a set of names."""
