"""The linear model on vectors of a frozen checkpoint: its features, its fit, and the same function as one weight matrix.

The stage ``baseline`` fits it to compare with, and the stage ``train`` publishes it where ``model.head`` is frozen.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuneline.core.tables import LabelSchema

if TYPE_CHECKING:
    from torch import Tensor

Vectors = NDArray[np.float32]
Array = TypeVar("Array", NDArray[np.float32], "Tensor")

MAX_ROWS = 20_000
"""Rows of the train split."""
MAX_VALUES = 16_000_000
"""Rows times features: fewer rows are used if the checkpoint is wide."""
REGULARIZATION = (1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""Inverse regularization, from strong to weak; the validation split decides. MRPC needs 1e-4 (accuracy 0.737; with 1 0.627)."""
MAX_ITERATIONS = 200
IMPOSSIBLE = -20.0
"""Logit of a class without rows of train: a probability below 1e-8, because the highest of the others is at least 0."""


def most_rows(width: int, pairs: bool) -> int:
    """Return how many rows of the train split are used."""
    return min(MAX_ROWS, MAX_VALUES // (4 * width if pairs else width))


def pair_features(first: Array, second: Array) -> tuple[Array, ...]:
    """Return the parts of the features of two texts: both vectors, their absolute difference and their product.

    On MRPC with MiniLM, both vectors add 0.016 to the accuracy of difference and product alone (0.737 and 0.721).
    """
    return first, second, abs(first - second), first * second


@dataclass(frozen=True)
class LinearModel:
    """A logistic regression of scaled features, or a ridge regression for numbers; without a ``model``, what is always predicted."""

    model: Any
    constant: float
    dtype: np.dtype[Any]

    @classmethod
    def fit(cls, rows: tuple[Vectors, NDArray[Any]], validation: tuple[Vectors, NDArray[Any]], labels: LabelSchema) -> Self:
        """Fit features ``(rows, features)`` and labels of the train split; the validation split chooses the regularization."""
        vectors, answers = rows
        constant = float(answers.mean() if labels.is_regression else np.bincount(answers).argmax())
        if np.ptp(answers) == 0:
            return cls(None, constant, answers.dtype)
        best, best_score = None, -np.inf
        for inverse in REGULARIZATION:
            model = _pipeline(inverse, labels).fit(vectors, answers)
            score = _score(model, *validation)
            if score < best_score:
                break  # a weaker one takes longer, too
            if score > best_score:
                best, best_score = model, score
        return cls(best, constant, answers.dtype)

    def predict(self, vectors: Vectors) -> NDArray[Any]:
        """Predict rows of features: class ids or numbers of shape ``(rows,)``."""
        if self.model is None:
            return np.full(len(vectors), self.constant, dtype=self.dtype)
        return np.asarray(self.model.predict(vectors), dtype=self.dtype)

    def weights(self, features: int, labels: LabelSchema) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return weight ``(outputs, features)`` and bias ``(outputs,)`` for features that are not scaled.

        Their logits give the same numbers, or by softmax the same probabilities.
        """
        outputs = labels.outputs
        weight, bias = np.zeros((outputs, features)), np.full(outputs, self.constant if labels.is_regression else IMPOSSIBLE)
        if self.model is None:
            if not labels.is_regression:
                bias[int(self.constant)] = 0.0
            return weight, bias
        scaler, linear = self.model[0], self.model[-1]
        scaled = np.atleast_2d(linear.coef_).astype(np.float64)
        coefficients = scaled / scaler.scale_
        intercept = np.atleast_1d(linear.intercept_) - coefficients @ scaler.mean_
        if not labels.is_regression and len(coefficients) == 1:  # of two classes, scikit-learn has the log of the odds
            coefficients, intercept = (np.concatenate([-values, values]) / 2 for values in (coefficients, intercept))
        present = slice(None) if labels.is_regression else linear.classes_
        weight[present], bias[present] = coefficients, intercept
        return weight, bias


def _score(model: Any, vectors: Vectors, answers: NDArray[Any]) -> float:
    """Return R² of numbers, or the mean log-likelihood of classes that the train split has, too; 0 without such rows.

    The likelihood tells more of few rows than the accuracy. On MRPC with 320 rows of train and 40 of validation, it chose models with a
    mean test accuracy of 0.720 (8 samples, the best possible choice 0.724); the accuracy of the 40 rows chose some with 0.709.
    """
    if not hasattr(model, "classes_"):
        return float(model.score(vectors, answers)) if len(answers) > 1 else 0.0
    from sklearn.metrics import log_loss

    known = np.isin(answers, model.classes_)
    return -float(log_loss(answers[known], model.predict_proba(vectors[known]), labels=model.classes_)) if known.any() else 0.0


def _pipeline(inverse: float, labels: LabelSchema) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    linear = Ridge(alpha=1 / inverse) if labels.is_regression else LogisticRegression(C=inverse, max_iter=MAX_ITERATIONS)
    return make_pipeline(StandardScaler(), linear)
