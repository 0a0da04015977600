"""Labels as people read and write them, by kind of task."""

from functools import singledispatch
from typing import Any

import numpy as np

from tuneline.model.tasks import Classification, Multilabel, Regression, Task
from tuneline.model.tasks.multilabel import NO_LABELS


@singledispatch
def exact_text(task: Task, label: Any) -> str:
    """Return a label, or what a person wrote as one, as reviews and corrections have it.

    Raises:
        ValueError: The label of a regression is not numeric.
    """
    raise NotImplementedError(task.kind)


@exact_text.register(Classification)
def _(task: Classification, label: Any) -> str:
    """Return the class name, given it or its id."""
    if isinstance(label, str):
        return label
    return task.names[int(label)]


@exact_text.register(Multilabel)
def _(task: Multilabel, label: Any) -> str:
    """Return the names, joined in the order of their ids, given a text, ids, or 0 or 1 for each label."""
    if isinstance(label, str):
        names = set(task.names_in(label))
        known = [name for name in task.names if name in names]
        unknown = sorted(names.difference(task.names))
        return task.separator.join([*known, *unknown]) or NO_LABELS
    return task.separator.join(task.names_of(label)) or NO_LABELS


@exact_text.register(Regression)
def _(_task: Regression, label: Any) -> str:
    """Return a number with the digits of a 32-bit float.

    Raises:
        ValueError: It is not numeric, or not finite.
    """
    number = np.float32(label)  # its text has as few digits as tell it from its neighbours
    if not np.isfinite(number):
        raise ValueError("not finite")
    return str(number)


@singledispatch
def staged_text(_task: Task, label: Any) -> str:
    """Return a label of ``staged_type`` as ``exact_text`` has it."""
    return str(label)


@staged_text.register(Multilabel)
def _(task: Multilabel, label: Any) -> str:
    """Return the names, joined in the order of their ids."""
    return exact_text(task, task.separator.join(label))


@singledispatch
def unknown_names(_task: Task, text: str) -> list[str]:  # noqa: ARG001
    """Return the names in a text of ``exact_text`` that are not a class; none of a number."""
    return []


@unknown_names.register(Classification)
def _(task: Classification, text: str) -> list[str]:
    """Return the text, unless it is the name of a class."""
    return [] if text in task.names else [text]


@unknown_names.register(Multilabel)
def _(task: Multilabel, text: str) -> list[str]:
    """Return the names in a text that are not a label."""
    return [name for name in task.names_in(text) if name not in task.names]


@singledispatch
def label_text(task: Task, label: Any) -> str:
    """Return a label or a prediction as people read it."""
    raise NotImplementedError(task.kind)


@label_text.register(Classification)
def _(task: Classification, label: Any) -> str:
    """Return the name of a class id."""
    return task.names[int(label)]


@label_text.register(Multilabel)
def _(task: Multilabel, label: Any) -> str:
    """Return the names of a row's labels."""
    return f"{task.separator} ".join(task.names_of(label)).strip() or NO_LABELS


@label_text.register(Regression)
def _(_task: Regression, label: Any) -> str:
    """Return a number with four digits."""
    return f"{label:.4g}"
