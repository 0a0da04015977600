"""The linear model on vectors of a frozen checkpoint: features, also of pairs, fit, and equal linear layer.

The stage ``baseline`` fits it to compare with, and the stage ``train`` publishes it where ``model.head`` is
frozen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuneline.model.linear.estimators import constant_prediction, fitting, is_constant, linear_model, repeated
from tuneline.model.linear.thresholds import LOGIT_OF_NEVER
from tuneline.model.tasks import Task
from tuneline.model.tasks.probabilities import entropies
from tuneline.model.tasks.task import Labels

if TYPE_CHECKING:
    from torch import Tensor


Vectors = NDArray[np.float32]
Examples = tuple[Vectors, NDArray[Any]]
"""Features of shape ``(rows, features)``, and the labels of the rows."""

Array = TypeVar("Array", NDArray[np.float32], "Tensor")
"""Vectors in NumPy or torch, of shape ``(rows, width)``."""

MAX_ROWS = 20_000
"""Rows of the train split."""
MAX_VALUES = 16_000_000
"""Rows times features: fewer rows are used if the checkpoint is wide."""
REGULARIZATION = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""Inverse regularization, from strong to weak. MRPC needs 1e-4: its accuracy is 0.737, and 0.627 with 1."""
FEW_ROWS = 500
"""Rows of validation below which the regularization is chosen by cross-validation of the train split."""
MOST_CROSS_VALIDATED = 4_000
"""Rows of train above which validation chooses it all the same.

Each fold takes seconds then, and data of this size seldom have few rows of validation.
"""
FOLDS = 5
EMPHASIS = 30.0
"""Factor of the scaled cosine of a pair, so that regularization hardly reaches its weight.

The weight is 30 times smaller for it, and its square, which is penalized, 900 times.
"""
SMALLEST_DEVIATION = 1e-6
"""Share of the largest standard deviation of a feature below which a feature is constant.

MiniLM has one of 1e-32: divided by it, the weight of its rounding errors would be 1e30.
"""
MAX_ITERATIONS = 200
IMPOSSIBLE = -20.0
"""Logit of a class without rows of train.

Its probability is below 1e-8, because the highest of the others is at least 0.
"""


def most_rows(width: int, pairs: bool) -> int:
    """Return how many rows of the train split are used, for vectors of a width."""
    features = pair_width(width) if pairs else width
    return min(MAX_ROWS, MAX_VALUES // features)


@dataclass(frozen=True)
class LinearModel:
    """A logistic regression of scaled features, or a ridge regression for numbers.

    Attributes:
        model: Pipeline of scikit-learn; ``None`` if all rows of train have one label.
        constant: What is predicted for a row without a model, a label of the task.
        dtype: Type of the predictions.
    """

    model: Any
    constant: Any
    dtype: np.dtype[Any]

    @classmethod
    def fit(
        cls,
        rows: Examples,
        validation: Examples,
        labels: Task,
        cosine_last: bool = False,
        predicts: bool = True,
    ) -> Self:
        """Fit features ``(rows, features)`` and labels of the train split.

        The regularization is chosen by the validation split, or by cross-validation of the train split where
        validation has few rows: on 37 rows of RTE, it chose models that were 5 points worse. With
        ``cosine_last``, the last feature is the cosine of a pair. A model whose weights alone are wanted need
        not be one that ``predicts``: it chooses no thresholds then, which takes several fits.
        """
        # one label only: there is nothing to fit
        vectors, answers = rows
        constant = constant_prediction(labels, [answers])
        if is_constant(answers):
            return cls(None, constant, answers.dtype)
        deviations = vectors.std(axis=0, dtype=np.float64)
        emphasis = (deviations > SMALLEST_DEVIATION * deviations.max()).astype(np.float32)
        if cosine_last:
            emphasis[-1] = EMPHASIS

        # regularization
        has_few_validation_rows = len(validation[1]) < FEW_ROWS
        can_be_divided = 2 * FOLDS <= len(answers) <= MOST_CROSS_VALIDATED
        if has_few_validation_rows and can_be_divided:
            divisions = _folds(rows)
        else:
            divisions = [(rows, validation)]
        inverse = _best_regularization(divisions, labels, emphasis)

        # the model of all rows
        model = _pipeline(linear_model(labels, inverse, MAX_ITERATIONS, final=predicts), emphasis)
        with fitting():
            model.fit(vectors, answers)
        return cls(model, constant, answers.dtype)

    def predict(self, vectors: Vectors) -> NDArray[Any]:
        """Predict rows of features: class ids or numbers of shape ``(rows,)``."""
        if self.model is None:
            return repeated(self.constant, len(vectors), self.dtype)
        return np.asarray(self.model.predict(vectors), dtype=self.dtype)

    def weights(self, features: int, labels: Task) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return weight ``(outputs, features)`` and bias ``(outputs,)`` for features that are not scaled.

        Their logits give the same numbers, or by softmax the same probabilities.
        """
        if self.model is None:
            return np.zeros((labels.outputs, features)), _constant_bias(labels, self.constant)
        scaler = self.model[0]
        emphasis = self.model[1].kw_args["emphasis"]
        linear = self.model[-1]
        scaled = np.atleast_2d(linear.coef_).astype(np.float64)
        coefficients = scaled * emphasis / scaler.scale_
        intercept = np.atleast_1d(linear.intercept_) - coefficients @ scaler.mean_
        if not labels.one_class:
            return coefficients, intercept
        if len(coefficients) == 1:  # of two classes, scikit-learn has the log of the odds
            coefficients = np.concatenate([-coefficients, coefficients]) / 2
            intercept = np.concatenate([-intercept, intercept]) / 2

        # scikit-learn fits only the classes that occur: the others are impossible
        weight = np.zeros((labels.outputs, features))
        bias = np.full(labels.outputs, IMPOSSIBLE)
        weight[linear.classes_] = coefficients
        bias[linear.classes_] = intercept
        return weight, bias


def _constant_bias(task: Task, constant: Any) -> NDArray[np.float64]:
    """Return the bias ``(outputs,)`` of a head that always predicts the same."""
    if task.one_class:
        bias = np.full(task.outputs, IMPOSSIBLE)
        bias[int(constant)] = 0.0
        return bias
    if task.has_classes:
        return np.where(np.asarray(constant) == 1, LOGIT_OF_NEVER, -LOGIT_OF_NEVER)
    return np.full(1, constant, np.float64)


def _score(task: Task, model: Any, vectors: Vectors, labels: Labels) -> float:
    """Return how well a fitted linear model predicts rows, more for a better one; 0 without rows.

    The likelihood tells more of few rows than the accuracy. On MRPC with 320 rows of train and 40 of
    validation, it chose models with a mean test accuracy of 0.720 (8 samples, the best possible choice
    0.724); the accuracy of the 40 rows chose some with 0.709.
    """
    from sklearn.metrics import log_loss

    if not task.has_classes:
        return float(model.score(vectors, labels)) if len(labels) > 1 else 0.0  # R²
    if not task.one_class:
        return -float(entropies(model.predict_proba(vectors), labels).mean()) if len(labels) else 0.0
    is_trained = np.isin(labels, model.classes_)  # rows of a class that train does not have are left out
    if not is_trained.any():
        return 0.0
    likelihoods = model.predict_proba(vectors[is_trained])
    return -float(log_loss(labels[is_trained], likelihoods, labels=model.classes_))


def _folds(rows: Examples) -> list[tuple[Examples, Examples]]:
    """Return the divisions of the rows of train for cross-validation: rows to fit, and rows to score."""
    from sklearn.model_selection import KFold

    vectors, answers = rows
    divisions = []
    for fitted, scored in KFold(FOLDS, shuffle=True, random_state=0).split(vectors):
        fitted_rows = vectors[fitted], answers[fitted]
        scored_rows = vectors[scored], answers[scored]
        divisions.append((fitted_rows, scored_rows))
    return divisions


def _best_regularization(
    divisions: Sequence[tuple[Examples, Examples]], labels: Task, emphasis: Vectors
) -> float:
    """Return the inverse regularization with the best mean score over the divisions.

    It is tried from strong to weak, until the score becomes worse: a weaker one takes longer, too.
    """
    best_inverse = REGULARIZATION[0]
    best_score = -np.inf
    for inverse in REGULARIZATION:
        scores = []
        for fitted_rows, scored_rows in divisions:
            if is_constant(fitted_rows[1]):  # one label only: there is nothing to fit
                scores.append(-np.inf)
                continue
            model = _pipeline(linear_model(labels, inverse, MAX_ITERATIONS, final=False), emphasis)
            with fitting():
                model.fit(*fitted_rows)
            scores.append(_score(labels, model, *scored_rows))
        score = float(np.mean(scores))
        if score < best_score:
            break
        if score > best_score:
            best_inverse = inverse
            best_score = score
    return best_inverse


def _pipeline(linear: Any, emphasis: Vectors) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    return make_pipeline(
        StandardScaler(), FunctionTransformer(_emphasized, kw_args={"emphasis": emphasis}), linear
    )


def _emphasized(scaled: Vectors, emphasis: Vectors) -> Vectors:
    return scaled * emphasis


SMALLEST = 1e-12
"""Added to a length that is divided by."""


def pair_features(first: Array, second: Array) -> tuple[Array, ...]:
    """Return the parts of the features of two texts.

    They are both vectors, their absolute difference, their product, and the cosine, of shape ``(rows, 1)``.

    On MRPC with MiniLM, both vectors add 0.016 to the accuracy of difference and product alone (0.737 and
    0.721). The cosine is what a checkpoint for sentences was trained for. The other parts correct it: on
    1,000 pairs of STS-B, Pearson's r is 0.889 with the cosine alone, 0.846 with the other parts, and 0.891
    with all (docs/benchmarks.md).
    """
    return first, second, abs(first - second), first * second, cosine(first, second)


def cosine(first: Array, second: Array) -> Array:
    """Return the cosine of the vectors of two texts, shape ``(rows, 1)``; 0 if one of them is 0."""
    products: Any = first * second
    squares: Any = (first * first).sum(1) * (second * second).sum(1)
    values: Array = (products.sum(1) / (squares**0.5 + SMALLEST))[:, None]
    return values


def pair_width(width: int) -> int:
    """Return the number of features of two texts, from the width of a vector."""
    return 4 * width + 1
