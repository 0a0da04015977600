"""The linear model on vectors of a frozen checkpoint: its features, its fit, and the same function as one weight matrix.

The stage ``baseline`` fits it to compare with, and the stage ``train`` publishes it where ``model.head`` is
frozen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuneline.tasks import Task

if TYPE_CHECKING:
    from torch import Tensor

Vectors = NDArray[np.float32]
Examples = tuple[Vectors, NDArray[Any]]
"""Features of shape ``(rows, features)``, and the labels of the rows."""
Array = TypeVar("Array", NDArray[np.float32], "Tensor")

MAX_ROWS = 20_000
"""Rows of the train split."""
MAX_VALUES = 16_000_000
"""Rows times features: fewer rows are used if the checkpoint is wide."""
REGULARIZATION = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""Inverse regularization, from strong to weak. MRPC needs 1e-4 (accuracy 0.737; with 1 0.627)."""
FEW_ROWS = 500
"""Rows of validation below which the regularization is chosen by cross-validation of the train split."""
MOST_CROSS_VALIDATED = 4_000
"""Rows of train above which validation chooses it all the same: each fold takes seconds, and few rows of validation are rare there."""
FOLDS = 5
EMPHASIS = 30.0
"""Factor of the scaled cosine of a pair, so that regularization hardly reaches it: it divides a squared weight by 900."""
MAX_ITERATIONS = 200


def most_rows(width: int, pairs: bool) -> int:
    """Return how many rows of the train split are used."""
    return min(MAX_ROWS, MAX_VALUES // (pair_width(width) if pairs else width))


def pair_features(first: Array, second: Array) -> tuple[Array, ...]:
    """Return the parts of the features of two texts: both vectors, their absolute difference, their product, and the cosine.

    On MRPC with MiniLM, both vectors add 0.016 to the accuracy of difference and product alone (0.737 and
    0.721). The cosine, of shape ``(rows, 1)``, is what a checkpoint for sentences was trained for. The others
    correct it: on 1,000 pairs of STS-B, Pearson's r is 0.889 with the cosine alone, 0.846 with the others,
    and 0.891 with all (docs/benchmarks.md).
    """
    return first, second, abs(first - second), first * second, cosine(first, second)


def cosine(first: Array, second: Array) -> Array:
    """Return the cosine of the vectors of two texts, shape ``(rows, 1)``; 0 if one of them is 0."""
    products: Any = first * second
    squares: Any = (first * first).sum(1) * (second * second).sum(1)
    values: Array = (products.sum(1) / (squares**0.5 + SMALLEST))[:, None]
    return values


SMALLEST = 1e-12
"""Added to a length that is divided by."""


def pair_width(width: int) -> int:
    """Return the number of features of two texts, given that of one vector."""
    return 4 * width + 1


@dataclass(frozen=True)
class LinearModel:
    """A logistic regression of scaled features, or a ridge regression for numbers; without a ``model``, what is always predicted."""

    model: Any
    constant: float
    dtype: np.dtype[Any]

    @classmethod
    def fit(cls, rows: Examples, validation: Examples, labels: Task, cosine_last: bool = False) -> Self:
        """Fit features ``(rows, features)`` and labels of the train split.

        The regularization is chosen by the validation split, or by cross-validation of the train split where
        validation has few rows: on 37 rows of RTE, it chose models that were 5 points worse. With
        ``cosine_last``, the last feature is the cosine of a pair.
        """
        vectors, answers = rows
        constant = float(labels.constant_prediction([answers]))
        if np.ptp(answers) == 0:
            return cls(None, constant, answers.dtype)
        emphasis = np.ones(vectors.shape[1], dtype=np.float32)
        if cosine_last:
            emphasis[-1] = EMPHASIS
        cross_validated = len(validation[1]) < FEW_ROWS and 2 * FOLDS <= len(answers) <= MOST_CROSS_VALIDATED
        splits = _folds(rows) if cross_validated else [(rows, validation)]
        inverse = _best_regularization(splits, labels, emphasis)
        return cls(_pipeline(inverse, labels, emphasis).fit(vectors, answers), constant, answers.dtype)

    def predict(self, vectors: Vectors) -> NDArray[Any]:
        """Predict rows of features: class ids or numbers of shape ``(rows,)``."""
        if self.model is None:
            return np.full(len(vectors), self.constant, dtype=self.dtype)
        return np.asarray(self.model.predict(vectors), dtype=self.dtype)

    def weights(self, features: int, labels: Task) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return weight ``(outputs, features)`` and bias ``(outputs,)`` for features that are not scaled.

        Their logits give the same numbers, or by softmax the same probabilities.
        """
        if self.model is None:
            return np.zeros((labels.outputs, features)), labels.constant_bias(self.constant)
        scaler, emphasis, linear = self.model[0], self.model[1].kw_args["emphasis"], self.model[-1]
        scaled = np.atleast_2d(linear.coef_).astype(np.float64)
        coefficients = scaled * emphasis / scaler.scale_
        intercept = np.atleast_1d(linear.intercept_) - coefficients @ scaler.mean_
        return labels.linear_head(coefficients, intercept, getattr(linear, "classes_", None))


def _folds(rows: Examples) -> list[tuple[Examples, Examples]]:
    """Return the rows of train divided for cross-validation: what to fit, and what to score."""
    from sklearn.model_selection import KFold

    vectors, answers = rows
    divided = KFold(FOLDS, shuffle=True, random_state=0).split(vectors)
    return [
        ((vectors[fitted], answers[fitted]), (vectors[scored], answers[scored])) for fitted, scored in divided
    ]


def _best_regularization(
    splits: Sequence[tuple[Examples, Examples]], labels: Task, emphasis: Vectors
) -> float:
    """Return the inverse regularization with the best mean score; from strong to weak, until it becomes worse."""
    best, best_score = REGULARIZATION[0], -np.inf
    for inverse in REGULARIZATION:
        scores = []
        for fitted, scored in splits:
            model = _pipeline(inverse, labels, emphasis).fit(*fitted) if np.ptp(fitted[1]) else None
            scores.append(-np.inf if model is None else _score(model, *scored))
        score = float(np.mean(scores))
        if score < best_score:
            break  # a weaker one takes longer, too
        if score > best_score:
            best, best_score = inverse, score
    return best


def _score(model: Any, vectors: Vectors, answers: NDArray[Any]) -> float:
    """Return R² of numbers, or the mean log-likelihood of classes that the train split has, too; 0 without such rows.

    The likelihood tells more of few rows than the accuracy. On MRPC with 320 rows of train and 40 of
    validation, it chose models with a mean test accuracy of 0.720 (8 samples, the best possible choice
    0.724); the accuracy of the 40 rows chose some with 0.709.
    """
    if not hasattr(model, "classes_"):
        return float(model.score(vectors, answers)) if len(answers) > 1 else 0.0
    from sklearn.metrics import log_loss

    known = np.isin(answers, model.classes_)
    return (
        -float(log_loss(answers[known], model.predict_proba(vectors[known]), labels=model.classes_))
        if known.any()
        else 0.0
    )


def _pipeline(inverse: float, labels: Task, emphasis: Vectors) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    linear = labels.linear_model(inverse, MAX_ITERATIONS)
    return make_pipeline(
        StandardScaler(), FunctionTransformer(_emphasized, kw_args={"emphasis": emphasis}), linear
    )


def _emphasized(scaled: Vectors, emphasis: Vectors) -> Vectors:
    return scaled * emphasis
