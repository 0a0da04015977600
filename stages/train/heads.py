"""The last layer of a model, and what ``params.yaml`` may say of it, by kind of task."""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.runtime.errors import ParamsError
from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.named_classes import NamedClasses
from tuneline.tasks.task import Labels, Logits


@singledispatch
def problem_type(task: Task) -> str:
    """Return the value of ``problem_type`` in the configuration of transformers."""
    raise NotImplementedError(task.kind)


@problem_type.register(Classification)
def _(_task: Classification) -> str:
    return "single_label_classification"


@problem_type.register(Multilabel)
def _(_task: Multilabel) -> str:
    return "multi_label_classification"


@problem_type.register(Regression)
def _(_task: Regression) -> str:
    return "regression"


@singledispatch
def scales_targets(task: Task) -> bool:
    """True if a model learns labels with mean 0 and deviation 1, and its last layer scales them back."""
    raise NotImplementedError(task.kind)


@scales_targets.register(NamedClasses)
def _(_task: NamedClasses) -> bool:
    """Classes have no scale."""
    return False


@scales_targets.register(Regression)
def _(_task: Regression) -> bool:
    """Numbers of any size are learned alike."""
    return True


@singledispatch
def new_bias(
    _task: Task,
    labels: Labels,  # noqa: ARG001
    class_weights: NDArray[np.float32] | None,  # noqa: ARG001
) -> NDArray[np.float32] | None:
    """Return the bias of a new head on a checkpoint, shape ``(outputs,)``; ``None`` to leave it at 0.

    ``labels`` are those of train, with the weights of their classes.
    """
    return None


@new_bias.register(Multilabel)
def _(
    _task: Multilabel, labels: Labels, class_weights: NDArray[np.float32] | None
) -> NDArray[np.float32] | None:
    """Return the log odds of each label in train.

    With a bias of 0, the first epochs teach the model nothing but that most labels are rare (Lin et al.
    2017, "Focal Loss for Dense Object Detection", section 4.1). On 2,798 package descriptions with 25
    labels, 6 epochs of MiniLM gave a macro F1 of 0.455 on validation with it, and 0.263 without. A model
    from scratch has nothing to tell labels by yet, and learned less with it: 0.70 to 0.77 instead of 0.84
    to 0.86 on 450 generated texts.
    """
    with_label = (labels == 1).sum(axis=0) + 0.5
    without = (labels == 0).sum(axis=0) + 0.5
    odds = with_label / without
    if class_weights is not None:
        odds = odds * class_weights
    return np.asarray(np.log(odds), np.float32)


@singledispatch
def uniform_logits(task: Task) -> Logits | None:
    """Logits of a row, ``(1, outputs)``, that prefer no prediction; ``None`` if every output is one."""
    raise NotImplementedError(task.kind)


@uniform_logits.register(NamedClasses)
def _(task: NamedClasses) -> Logits | None:
    """The same logit for each name."""
    return np.zeros((1, task.outputs), np.float32)


@uniform_logits.register(Regression)
def _(_task: Regression) -> Logits | None:
    """There are none: each number is a prediction."""
    return None


@singledispatch
def matches_head(task: Task, stored: Sequence[str]) -> bool:
    """Return True if the names of a checkpoint's outputs are the outputs of this task, in their order."""
    raise NotImplementedError(task.kind)


@matches_head.register(NamedClasses)
def _(task: NamedClasses, stored: Sequence[str]) -> bool:
    """Return True for the same names in the same order."""
    return list(stored) == list(task.names)


@matches_head.register(Regression)
def _(_task: Regression, _stored: Sequence[str]) -> bool:
    """Return True: the name of the only output means nothing."""
    return True


@singledispatch
def check_class_params(task: Task, class_weights: object, label_smoothing: float) -> None:
    """Check that ``train.class_weights`` and ``train.label_smoothing`` fit the labels.

    Raises:
        ParamsError: One does not fit.
    """
    raise NotImplementedError(task.kind)


@check_class_params.register(NamedClasses)
def _(task: NamedClasses, class_weights: object, _label_smoothing: float) -> None:
    """Check that weights are of names of the task."""
    if not isinstance(class_weights, dict):  # "balanced", or none
        return
    unknown = set(class_weights) - set(task.names)
    if unknown:
        raise ParamsError(
            f"train.class_weights: {min(unknown)!r} is not a {task.class_term}.",
            f"The {task.class_terms} are {', '.join(task.names)}.",
        )


@check_class_params.register(Regression)
def _(_task: Regression, class_weights: object, label_smoothing: float) -> None:
    """Refuse both."""
    if class_weights is None and not label_smoothing:
        return
    key = "label_smoothing" if class_weights is None else "class_weights"
    raise ParamsError(
        f"train.{key}: the labels are numbers, and regression has no classes.", f"Remove train.{key}."
    )


@singledispatch
def logged_label(task: Task, label: Any) -> str:
    """Return a label as the first lines of a training show it."""
    raise NotImplementedError(task.kind)


@logged_label.register(Classification)
def _(task: Classification, label: Any) -> str:
    """Return a class id with its name."""
    return f"{label} {task.names[label]}"


@logged_label.register(Multilabel)
def _(task: Multilabel, label: Any) -> str:
    """Return the names of a row's labels."""
    return f"[{', '.join(task.names_of(label))}]"


@logged_label.register(Regression)
def _(_task: Regression, label: Any) -> str:
    """Return a number."""
    return f"{label:g}"
