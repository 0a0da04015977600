"""What the page says of a kind of task."""

from collections.abc import Mapping
from functools import singledispatch

from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.named_classes import NamedClasses


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


@singledispatch
def error_figure(task: Task) -> str:
    """Return the name of the figure that shows the errors."""
    raise NotImplementedError(task.kind)


@error_figure.register(NamedClasses)
def _(_task: NamedClasses) -> str:
    return "confidence"


@error_figure.register(Regression)
def _(_task: Regression) -> str:
    return "residuals"
