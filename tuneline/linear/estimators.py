"""The linear models of scikit-learn, and the constant ones, by kind of task."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import singledispatch
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from tuneline.linear.thresholds import FEWEST_ROWS, LOGIT_OF_NEVER, choose_thresholds, divisions
from tuneline.params.train import ThresholdParams
from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.multilabel import HALF
from tuneline.tasks.probabilities import sigmoid
from tuneline.tasks.task import Labels


@contextmanager
def fitting() -> Iterator[None]:
    """Fit models inside the block; they need not converge: the limit of their iterations bounds the time."""
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    # NumPy and SciPy bring a BLAS each, with threads of its own, and L-BFGS calls both in turn: idle threads
    # of one take the cores of the other. On two cores, one thread is four times as fast (docs/benchmarks.md).
    with (
        warnings.catch_warnings(action="ignore", category=ConvergenceWarning),
        threadpool_limits(1, user_api="blas"),
    ):
        yield


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


def linear_model(
    task: Task, inverse: float, iterations: int, *, sparse: bool = False, final: bool = True
) -> Any:
    """Return an unfitted linear model of scikit-learn.

    Args:
        task: The kind of task.
        inverse: Inverse of the regularization.
        iterations: Most iterations of its fit.
        sparse: True for many sparse features: a ridge regression has its usual regularization then.
        final: True for a model that predicts, False for one whose probabilities are only scored.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    from tuneline.linear.estimators import OneVsRest

    if task.one_class:
        return LogisticRegression(C=inverse, max_iter=iterations)
    if task.has_classes:
        return OneVsRest(inverse=inverse, iterations=iterations, has_thresholds=final)
    if sparse:
        return Ridge(solver="sparse_cg")
    return Ridge(alpha=1 / inverse)


class OneVsRest(BaseEstimator):  # type: ignore[misc]
    """One logistic regression for each label, and a threshold of its probability.

    The ``OneVsRestClassifier`` of scikit-learn has no thresholds, and no coefficients of a label that all
    rows have.

    Attributes:
        inverse: Inverse of the regularization.
        iterations: Most iterations of a fit.
        has_thresholds: True if thresholds are chosen, by models of other rows than they decide; else 0.5.
        coef_: Weights, shape ``(labels, features)``.
        intercept_: Shape ``(labels,)``.
        thresholds_: Shape ``(labels,)``.
        classes_: Ids of the labels.
    """

    def __init__(self, inverse: float, iterations: int, has_thresholds: bool = False) -> None:
        self.inverse = inverse
        self.iterations = iterations
        self.has_thresholds = has_thresholds

    def fit(self, features: Any, labels: NDArray[np.int8]) -> Self:
        """Fit features ``(rows, features)``, which may be sparse, to labels ``(rows, labels)``."""
        self.classes_ = np.arange(labels.shape[1])
        self.thresholds_ = np.full(labels.shape[1], HALF)
        if self.has_thresholds and len(labels) >= FEWEST_ROWS:
            # every row speaks for them: a rare label has few
            logits = np.empty(labels.shape)
            for held_out, others in divisions(len(labels)):
                logits[held_out] = self._fit(features[others], labels[others]).logits(features[held_out])
            self.thresholds_ = choose_thresholds(logits, labels == 1, ThresholdParams())
        return self._fit(features, labels)

    def _fit(self, features: Any, labels: NDArray[np.int8]) -> Self:
        outputs = labels.shape[1]
        self.coef_ = np.zeros((outputs, features.shape[1]))
        self.intercept_ = np.zeros(outputs)
        for label in range(outputs):
            has_label = labels[:, label] == 1
            if has_label.all() or not has_label.any():
                # nothing to learn: the label is certain, or impossible
                self.intercept_[label] = LOGIT_OF_NEVER if has_label.all() else -LOGIT_OF_NEVER
                continue
            model = LogisticRegression(C=self.inverse, max_iter=self.iterations)
            model.fit(features, has_label)
            self.coef_[label] = model.coef_[0]
            self.intercept_[label] = model.intercept_[0]
        return self

    def logits(self, features: Any) -> NDArray[np.float64]:
        """Return the logit of each label, shape ``(rows, labels)``."""
        return np.asarray(features @ self.coef_.T) + self.intercept_

    def predict_proba(self, features: Any) -> NDArray[np.float64]:
        """Return the probability of each label, shape ``(rows, labels)``."""
        return sigmoid(self.logits(features))

    def predict(self, features: Any) -> NDArray[np.int8]:
        """Return the labels above their thresholds, shape ``(rows, labels)``."""
        return (self.predict_proba(features) > self.thresholds_).astype(np.int8)
