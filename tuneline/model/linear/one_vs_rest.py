"""A logistic regression of each of several labels, behind the interface of scikit-learn's models."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from tuneline.core.params.train import ThresholdParams
from tuneline.model.linear.thresholds import FEWEST_ROWS, LOGIT_OF_NEVER, choose_thresholds, divisions
from tuneline.model.tasks.multilabel import HALF
from tuneline.model.tasks.probabilities import sigmoid


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
