"""What the page shows of a kind of task: the largest errors and their names, and notes."""

from collections.abc import Mapping
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from tuneline.evaluation.probability_scores import confidences
from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.probabilities import likelihoods
from tuneline.tasks.task import Labels, Logits


@singledispatch
def errors_note(_task: Task) -> str:
    """Return what the listed errors are, in words; empty where the title says it."""
    return ""


@errors_note.register(Multilabel)
def _(_task: Multilabel) -> str:
    """Say what an error of a set is."""
    return (
        "Rows that do not get exactly their labels. The confidence is of the wrong decision on a label that"
        " the model is surest of."
    )


@errors_note.register(Regression)
def _(_task: Regression) -> str:
    """Say what the errors of numbers are."""
    return "The predictions farthest from their labels."


@singledispatch
def error_size(_task: Task) -> str:
    """Return the name of the size of an error."""
    return "confidence"


@error_size.register(Regression)
def _(_task: Regression) -> str:
    """Return the name of a distance."""
    return "error"


def error_size_text(task: Task, size: float) -> str:
    """Return one of ``error_sizes`` with its name, as people read it: a probability in percent."""
    if error_size(task) == "confidence":
        return f"confidence {100 * size:.1f} %"
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


def errors_title(task: Task) -> str:
    """Return the title of the list of errors, the largest first."""
    if error_size(task) == "confidence":
        return "Most confident errors"
    return "Largest errors"


@singledispatch
def curves_note(_task: Task) -> str:
    """What the curves of precision, ROC and calibration are of, in words; empty where it is clear."""
    return ""


@curves_note.register(Classification)
def _(task: Classification) -> str:
    """With two classes, the curves are of class 1."""
    if task.outputs <= 2:
        return ""
    return "Curves are means over the classes, each against the rest."


@curves_note.register(Multilabel)
def _(_task: Multilabel) -> str:
    """The curves are of labels, and calibration is of all decisions."""
    return (
        "Curves are means over the labels. Calibration compares the probability of each label with how"
        " often rows have it."
    )


@singledispatch
def thresholds_by_name(_task: Task) -> Mapping[str, float]:
    """The probability above which a row gets a class, by class name; empty where classes compete."""
    return {}


@thresholds_by_name.register(Multilabel)
def _(task: Multilabel) -> Mapping[str, float]:
    """The threshold of each label, 0.5 if none was chosen."""
    return dict(zip(task.names, task.cuts.tolist(), strict=True))
