"""The linear models of scikit-learn, and the constant ones, by kind of task."""

from collections.abc import Iterable
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.linear.thresholds import LOGIT_OF_NEVER
from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.named_classes import NamedClasses
from tuneline.tasks.probabilities import entropies
from tuneline.tasks.task import Labels

IMPOSSIBLE = -20.0
"""Logit of a class without rows of train.

Its probability is below 1e-8, because the highest of the others is at least 0.
"""


def repeated(prediction: Any, rows: int, dtype: np.dtype[Any] | None = None) -> Labels:
    """Return the same prediction, a label of one row, for each of so many rows."""
    value = np.asarray(prediction, dtype)
    return np.broadcast_to(value, (rows, *value.shape)).copy()


def is_constant(labels: Labels) -> bool:
    """Return True if at least one row has a label, and all rows have the same."""
    return bool((labels == labels[:1]).all())


@singledispatch
def constant_prediction(task: Task, batches: Iterable[Labels]) -> Any:
    """Return the best prediction without a text: the majority baseline predicts it."""
    raise NotImplementedError(task.kind)


@constant_prediction.register(Classification)
def _(task: Classification, batches: Iterable[Labels]) -> Any:
    """Return the most frequent class."""
    counts = np.zeros(task.outputs, np.int64)
    for batch in batches:
        counts += np.bincount(batch, minlength=task.outputs)
    return counts.argmax()


@constant_prediction.register(Multilabel)
def _(_task: Multilabel, batches: Iterable[Labels]) -> Any:
    """Return the most frequent set, of equally frequent ones the first in the order of the ids."""
    counts: dict[bytes, int] = {}
    for batch in batches:
        sets, rows = np.unique(batch, axis=0, return_counts=True)
        for labels, count in zip(sets.astype(np.int8), rows.tolist(), strict=True):
            counts[labels.tobytes()] = counts.get(labels.tobytes(), 0) + count
    most_frequent = min(counts, key=lambda labels: (-counts[labels], labels))
    return np.frombuffer(most_frequent, np.int8)


@constant_prediction.register(Regression)
def _(_task: Regression, batches: Iterable[Labels]) -> Any:
    """Return the mean."""
    # In 64 bits: many numbers of 32 bits would lose digits in their sum.
    total, rows = np.sum([(batch.sum(dtype=np.float64), len(batch)) for batch in batches], axis=0)
    return np.float32(total / rows)


@singledispatch
def linear_model(task: Task, inverse: float, iterations: int, *, final: bool) -> Any:
    """Return an unfitted linear model of scikit-learn.

    Args:
        task: The kind of task.
        inverse: Inverse of the regularization.
        iterations: Most iterations of its fit.
        final: True for a model that predicts, False for one whose probabilities are only scored.
    """
    raise NotImplementedError(task.kind)


@linear_model.register(Classification)
def _(_task: Classification, inverse: float, iterations: int, *, final: bool) -> Any:  # noqa: ARG001
    """Return a logistic regression."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=inverse, max_iter=iterations)


@linear_model.register(Multilabel)
def _(_task: Multilabel, inverse: float, iterations: int, *, final: bool) -> Any:
    """Return a logistic regression of each label; the final one chooses its thresholds."""
    from tuneline.linear.one_vs_rest import OneVsRest

    return OneVsRest(inverse=inverse, iterations=iterations, has_thresholds=final)


@linear_model.register(Regression)
def _(_task: Regression, inverse: float, _iterations: int, *, final: bool) -> Any:  # noqa: ARG001
    """Return a ridge regression."""
    from sklearn.linear_model import Ridge

    return Ridge(alpha=1 / inverse)


@singledispatch
def sparse_linear_model(task: Task, inverse: float, iterations: int) -> Any:
    """Return a linear model of scikit-learn for many sparse features."""
    raise NotImplementedError(task.kind)


@sparse_linear_model.register(NamedClasses)
def _(task: NamedClasses, inverse: float, iterations: int) -> Any:
    """Return the same model as for dense features."""
    return linear_model(task, inverse, iterations, final=True)


@sparse_linear_model.register(Regression)
def _(_task: Regression, _inverse: float, _iterations: int) -> Any:
    """Return a ridge regression with the usual regularization."""
    from sklearn.linear_model import Ridge

    return Ridge(solver="sparse_cg")


@singledispatch
def linear_score(task: Task, model: Any, vectors: NDArray[np.float32], labels: Labels) -> float:
    """Return how well a fitted linear model predicts rows, more for a better one; 0 without rows."""
    raise NotImplementedError(task.kind)


@linear_score.register(Classification)
def _(_task: Classification, model: Any, vectors: NDArray[np.float32], labels: Labels) -> float:
    """Return the mean log-likelihood; rows of a class that the train split does not have are left out.

    The likelihood tells more of few rows than the accuracy. On MRPC with 320 rows of train and 40 of
    validation, it chose models with a mean test accuracy of 0.720 (8 samples, the best possible choice
    0.724); the accuracy of the 40 rows chose some with 0.709.
    """
    from sklearn.metrics import log_loss

    is_trained = np.isin(labels, model.classes_)
    if not is_trained.any():
        return 0.0
    likelihoods = model.predict_proba(vectors[is_trained])
    return -float(log_loss(labels[is_trained], likelihoods, labels=model.classes_))


@linear_score.register(Multilabel)
def _(_task: Multilabel, model: Any, vectors: NDArray[np.float32], labels: Labels) -> float:
    """Return the negative mean loss."""
    if not len(labels):
        return 0.0
    return -float(entropies(model.predict_proba(vectors), labels).mean())


@linear_score.register(Regression)
def _(_task: Regression, model: Any, vectors: NDArray[np.float32], labels: Labels) -> float:
    """Return R², of two rows or more."""
    return float(model.score(vectors, labels)) if len(labels) > 1 else 0.0


@singledispatch
def linear_head(
    task: Task, coefficients: NDArray[np.float64], intercept: NDArray[np.float64], classes: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return weight ``(outputs, features)`` and bias ``(outputs,)`` of a fitted linear model.

    The rows of the weight are of ``classes``.
    """
    raise NotImplementedError(task.kind)


@linear_head.register(Classification)
def _(
    task: Classification, coefficients: NDArray[np.float64], intercept: NDArray[np.float64], classes: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the logits of all classes: those that were not fitted are impossible."""
    if len(coefficients) == 1:  # of two classes, scikit-learn has the log of the odds
        coefficients = np.concatenate([-coefficients, coefficients]) / 2
        intercept = np.concatenate([-intercept, intercept]) / 2

    # scikit-learn fits only the classes that occur.
    weight = np.zeros((task.outputs, coefficients.shape[1]))
    bias = np.full(task.outputs, IMPOSSIBLE)
    weight[classes] = coefficients
    bias[classes] = intercept
    return weight, bias


@linear_head.register(Multilabel)
def _(
    _task: Multilabel,
    coefficients: NDArray[np.float64],
    intercept: NDArray[np.float64],
    _classes: Any,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weights: there is a row for each label."""
    return coefficients, intercept


@linear_head.register(Regression)
def _(
    _task: Regression,
    coefficients: NDArray[np.float64],
    intercept: NDArray[np.float64],
    _classes: Any,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both as they are."""
    return coefficients, intercept


@singledispatch
def constant_bias(task: Task, constant: Any) -> NDArray[np.float64]:
    """Return the bias ``(outputs,)`` of a head that always predicts the same."""
    raise NotImplementedError(task.kind)


@constant_bias.register(Classification)
def _(task: Classification, constant: Any) -> NDArray[np.float64]:
    """Return a bias with which all other classes are impossible."""
    bias = np.full(task.outputs, IMPOSSIBLE)
    bias[int(constant)] = 0.0
    return bias


@constant_bias.register(Multilabel)
def _(_task: Multilabel, constant: Any) -> NDArray[np.float64]:
    """Return a bias with which the labels of a set are certain, and all others impossible."""
    return np.where(np.asarray(constant) == 1, LOGIT_OF_NEVER, -LOGIT_OF_NEVER)


@constant_bias.register(Regression)
def _(_task: Regression, constant: Any) -> NDArray[np.float64]:
    """Return the number."""
    return np.full(1, constant)
