"""The largest errors of a model, and what they are called, by kind of task."""

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from tuneline.evaluation.probability_scores import confidences
from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.named_classes import NamedClasses
from tuneline.tasks.probabilities import likelihoods
from tuneline.tasks.task import Labels, Logits


@singledispatch
def errors_note(task: Task) -> str:
    """TODO."""
    raise NotImplementedError(task.kind)


@errors_note.register(Classification)
def _(_task: Classification) -> str:
    return ""


@errors_note.register(Multilabel)
def _(_task: Multilabel) -> str:
    return (
        "Rows that do not get exactly their labels. The confidence is of the wrong decision on a label that"
        " the model is surest of."
    )


@errors_note.register(Regression)
def _(_task: Regression) -> str:
    return "The predictions farthest from their labels."


@singledispatch
def error_size(task: Task) -> str:
    """TODO."""
    raise NotImplementedError(task.kind)


@error_size.register(NamedClasses)
def _(_task: NamedClasses) -> str:
    return "confidence"


@error_size.register(Regression)
def _(_task: Regression) -> str:
    return "error"


@singledispatch
def error_size_text(task: Task, size: float) -> str:
    """Return one of ``error_sizes`` with its name, as people read it."""
    raise NotImplementedError(task.kind)


@error_size_text.register(NamedClasses)
def _(_task: NamedClasses, size: float) -> str:
    """Return a probability in percent."""
    return f"confidence {100 * size:.1f} %"


@error_size_text.register(Regression)
def _(_task: Regression, size: float) -> str:
    """Return a difference with three digits."""
    return f"error {size:.3g}"


@singledispatch
def error_sizes(task: Task, logits: Logits, labels: Labels) -> NDArray[np.float64]:
    """Return the size of each error, shape ``(rows,)``: confidence, or distance from the label."""
    raise NotImplementedError(task.kind)


@error_sizes.register(Classification)
def _(task: Classification, logits: Logits, _labels: Labels) -> NDArray[np.float64]:
    """Return the probability of each predicted class."""
    return confidences(task, logits)


@error_sizes.register(Multilabel)
def _(task: Multilabel, logits: Logits, labels: Labels) -> NDArray[np.float64]:
    """Return the probability of the most confident wrong decision of each row.

    Where all decisions are right, it is the probability of the least confident one.
    """
    probability = task.scores(logits)
    sets = task.decided_sets(probability)
    confidence = likelihoods(probability, sets)
    wrong = sets != labels
    most_confident_error = np.where(wrong, confidence, 0.0).max(axis=1)
    return np.asarray(np.where(wrong.any(axis=1), most_confident_error, confidence.min(axis=1)))


@error_sizes.register(Regression)
def _(task: Regression, logits: Logits, labels: Labels) -> NDArray[np.float64]:
    """Return the absolute differences."""
    return np.asarray(np.abs(task.predictions(logits) - labels), dtype=np.float64)


@singledispatch
def errors_title(task: Task) -> str:
    """Return the title of the list of errors, the largest first."""
    raise NotImplementedError(task.kind)


@errors_title.register(NamedClasses)
def _(_task: NamedClasses) -> str:
    return "Most confident errors"


@errors_title.register(Regression)
def _(_task: Regression) -> str:
    return "Largest errors"
