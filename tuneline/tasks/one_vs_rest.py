"""A logistic regression of each of several labels, behind the interface of scikit-learn's models."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from tuneline.metrics.curves import sigmoid
from tuneline.params.train import ThresholdParams
from tuneline.tasks.multilabel import HALF, LOGIT_OF_NEVER, best_threshold


class OneVsRest(BaseEstimator):  # type: ignore[misc]
    """One logistic regression for each label, and a threshold of its probability.

    The ``OneVsRestClassifier`` of scikit-learn has no thresholds, and no coefficients of a label that all
    rows have.

    Attributes:
        inverse: Inverse of the regularization.
        iterations: Most iterations of a fit.
        held_out: Thresholds are chosen on one row of so many, by a model of the other rows; ``None``: 0.5.
        coef_: Weights, shape ``(labels, features)``.
        intercept_: Shape ``(labels,)``.
        thresholds_: Shape ``(labels,)``.
    """

    def __init__(self, inverse: float, iterations: int, held_out: int | None = None) -> None:
        self.inverse = inverse
        self.iterations = iterations
        self.held_out = held_out

    def fit(self, features: Any, labels: NDArray[np.int8]) -> Self:
        """Fit features ``(rows, features)``, which may be sparse, to labels ``(rows, labels)``."""
        rows, outputs = labels.shape
        self.thresholds_ = np.full(outputs, HALF)
        if self.held_out is not None and rows >= 2 * self.held_out:
            is_held_out = np.arange(rows) % self.held_out == 0
            self._fit(features[~is_held_out], labels[~is_held_out])
            probability = self.predict_proba(features[is_held_out])
            for label in range(outputs):
                has_label = labels[is_held_out, label] == 1
                self.thresholds_[label] = best_threshold(probability[:, label], has_label, ThresholdParams())
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

    def predict_proba(self, features: Any) -> NDArray[np.float64]:
        """Return the probability of each label, shape ``(rows, labels)``."""
        return sigmoid(np.asarray(features @ self.coef_.T) + self.intercept_)

    def predict(self, features: Any) -> NDArray[np.int8]:
        """Return the labels above their thresholds, shape ``(rows, labels)``."""
        return (self.predict_proba(features) > self.thresholds_).astype(np.int8)
