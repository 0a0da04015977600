"""Classification: one class of several for each row."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.core.errors import ParamsError
from tuneline.core.tables import UNLABELLED
from tuneline.metrics.calibrated import best_temperature, log_losses
from tuneline.metrics.curves import Softmax, probabilities
from tuneline.metrics.scores import compute_metric
from tuneline.metrics.table import (
    METRIC_TABLE,
    MOST_PREDICTED,
    NEVER_PREDICTED,
    PREDICTED_CLASSES,
    Averaging,
    Metric,
    MetricKind,
    primary_metric,
)
from tuneline.tasks.named_classes import STEPS_OF_MANY_CLASSES, NamedClasses
from tuneline.tasks.task import DEVIATIONS, LEAST_STEPS, TYPICAL, Labels, Logits, RowLosses, Task

if TYPE_CHECKING:
    from torch import Tensor

ROWS_AT_A_TIME = 100_000
DISAGREEMENT = 0.2
"""Share of rows on which two models of about the accuracy ``TYPICAL`` usually differ."""
STEPS_PER_CLASS = 40
"""Optimizer steps for each class: about what 10 to 55 classes were measured to need (docs/benchmarks.md)."""
UNKNOWN = -2
"""Id of a class that a person wrote and that the task does not have; -1 is the id of a missing label."""
IMPOSSIBLE = -20.0
"""Logit of a class without rows of train.

Its probability is below 1e-8, because the highest of the others is at least 0.
"""


FEWEST_STEPS = 3
"""Fewest classes that are a scale: of two, an error is always of the same size."""


def scale_numbers(names: Sequence[str]) -> tuple[float, ...] | None:
    """Return the number of each name if the names are steps of a scale, such as ratings from 1 to 5.

    All names are numbers, and the distances between neighbours are multiples of the smallest one. At least
    half of the steps between the lowest and the highest number are there: a few numbers that are far apart
    are rather ids. Whether the numbers are meant to be ordered, nobody can see: topics may have numbers, too.
    """
    if len(names) < FEWEST_STEPS:
        return None
    try:
        numbers = tuple(float(name) for name in names)
    except ValueError:
        return None
    distances = np.diff(np.sort(numbers))
    smallest = distances.min()
    if not np.isfinite(distances).all() or smallest <= 0:
        return None

    steps = distances / smallest
    is_even = bool(np.allclose(steps, steps.round()))
    if not is_even or steps.sum() + 1 > 2 * len(names):
        return None
    return numbers


@dataclass(frozen=True)
class Classification(NamedClasses):
    """Labels are class ids, int64; a model has one logit for each class.

    Attributes:
        names: Class names in the order of their ids.
    """

    names: tuple[str, ...]

    kind: ClassVar[str] = "classification"
    problem_type: ClassVar[str] = "single_label_classification"
    metric_kind: ClassVar[MetricKind] = "classification"
    errors_note: ClassVar[str] = ""
    prediction_column: ClassVar[str] = "label"
    staged_type: ClassVar[pa.DataType] = pa.string()
    one_class: ClassVar[bool] = True

    @classmethod
    def strata(cls, labels: pa.Array) -> pa.Array:
        """Return the class of each row."""
        row_ends = np.cumsum(labels.is_valid().to_numpy(zero_copy_only=False))
        offsets = np.concatenate([[0], row_ends])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), labels.drop_null())

    @classmethod
    def observed(cls, labels: pa.Array) -> set[Any]:
        """Return the classes that occur in a column."""
        return set(pc.unique(labels.drop_null()).to_pylist())

    @classmethod
    def least_steps(cls, classes: int) -> int:
        """Return more steps for many classes, as few rows have each of them."""
        return min(max(LEAST_STEPS, STEPS_PER_CLASS * classes), STEPS_OF_MANY_CLASSES)

    @classmethod
    def resolution(cls, rows: str, independent: float, metric: Metric) -> str:
        """Return the half width of an interval of the accuracy, and the smallest difference that is seen.

        For another metric, which depends on the rows of each class, no figure is known beforehand.
        """
        if metric != primary_metric(cls.metric_kind):
            return (
                f"With {rows}, test measures the metric that decides ({metric.title}) the less exactly, the"
                " fewer rows a class has: its interval will say how exactly."
            )
        # Only the rows on which two models differ tell them apart.
        half = DEVIATIONS * math.sqrt(TYPICAL * (1 - TYPICAL) / independent)
        smallest = DEVIATIONS * math.sqrt(DISAGREEMENT / independent)
        return (
            f"With {rows}, test measures an accuracy of {TYPICAL} to within {half:.3f}, and tells two"
            f" models apart that differ by {smallest:.3f} or more."
        )

    # How labels are read and stored.

    @property
    def label_type(self) -> pa.DataType:
        """Class ids."""
        return pa.int64()

    @property
    def label_feature(self) -> dict[str, Any]:
        """A class label with its names."""
        return {"names": list(self.names), "_type": "ClassLabel"}

    def stored(self, labels: pa.Array, written: Sequence[str]) -> pa.Array:
        """Return the ids of the classes."""
        ids = pc.index_in(labels, value_set=pa.array(written, pa.string()))
        return pc.if_else(pc.is_null(labels), None, pc.fill_null(ids, UNLABELLED)).cast(self.label_type)

    def parsed(self, texts: pa.ChunkedArray) -> Labels:
        """Return the ids of class names, -2 for an unknown one."""
        # An invalid class has its own id, because -1 is a missing label.
        ids = pc.fill_null(pc.index_in(texts, value_set=pa.array(self.names, pa.string())), UNKNOWN)
        return np.asarray(ids.to_numpy().astype(np.int64))

    def valid(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which labels are ids of classes."""
        return np.asarray((labels >= 0) & (labels < self.outputs))

    @property
    def label_limits(self) -> dict[str, Any]:
        """The class ids."""
        return {"class_ids": list(range(self.outputs))}

    def unlabelled(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which rows have no class."""
        return np.asarray(labels == UNLABELLED)

    def translated(self, labels: Labels, other: Task) -> Labels:
        """Translate class ids by class name."""
        if other.names == self.names:
            return labels
        # own id of each class of the other task
        ids = []
        for name in other.output_names:
            if name in self.names:
                ids.append(self.names.index(name))
            else:
                ids.append(-1)
        return np.asarray(np.array(ids, dtype=np.int64)[labels])

    def encoded(self, predicted: pa.ChunkedArray) -> Labels:
        """Return the ids of class names."""
        # A file of another model may have other classes.
        ids = pc.fill_null(pc.index_in(predicted, pa.array(self.names)), -1)
        return np.asarray(ids.to_numpy().astype(np.int64))

    def decoded(self, predictions: Labels) -> pa.Array:
        """Return the names of class ids."""
        return pa.array([self.names[index] for index in predictions.tolist()], pa.string())

    def exact_text(self, label: Any) -> str:
        """Return the class name, given it or its id."""
        if isinstance(label, str):
            return label
        return self.names[int(label)]

    def unknown_names(self, text: str) -> list[str]:
        """Return the text, unless it is the name of a class."""
        return [] if text in self.names else [text]

    def label_text(self, label: Any) -> str:
        """Return the name of a class id."""
        return self.names[int(label)]

    def logged_label(self, label: Any) -> str:
        """Return a class id with its name."""
        return f"{label} {self.names[label]}"

    def label_value(self, label: Any) -> str | float:
        """Return the name of a class id."""
        return self.names[int(label)]

    def example_labels(self, rows: int) -> Labels:
        """Return class ids, each class in turn."""
        return np.arange(rows) % self.outputs

    # What a model predicts.

    def predictions(self, logits: Logits) -> Labels:
        """Return the class of the highest logit, the lowest id in a tie."""
        return np.asarray(logits.argmax(axis=1))

    def scores(self, logits: Logits) -> NDArray[np.float64]:
        """Return the probabilities of the classes."""
        return probabilities(logits)

    def window_support(self, windows: Logits, answers: Logits) -> NDArray[np.float64]:
        """Return the probability that each window alone gives the class of its document."""
        classes = self.predictions(answers)
        scores = self.scores(windows)
        return scores[np.arange(len(scores)), classes]

    @property
    def prediction_columns(self) -> tuple[str, ...]:
        """The class, its probability, and the probability of each class."""
        return ("label", "probability", *(f"probability_{name}" for name in self.names))

    def prediction_rows(self, scores: NDArray[np.float64], digits: int) -> Iterator[list[Any]]:
        """Yield class name and probabilities; of equal ones, the lowest id is predicted."""
        best = scores.argmax(axis=1).tolist()
        for position, values in zip(best, scores.round(digits).tolist(), strict=True):
            yield [self.names[position], values[position], *values]

    def json_prediction(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return them with the probabilities by class name."""
        label, probability, *others = values
        return {
            "label": label,
            "probability": probability,
            "probabilities": dict(zip(self.names, others, strict=True)),
        }

    def named_scores(self, scores: Sequence[float]) -> tuple[str | float, dict[str, float]]:
        """Return the most probable class, and all probabilities."""
        named = dict(zip(self.names, scores, strict=True))
        return max(named, key=lambda name: named[name]), named

    def margin(self, probabilities: Mapping[str, float]) -> float:
        """Return the difference of the two largest probabilities."""
        ascending = sorted([0.0, *probabilities.values()])
        return ascending[-1] - ascending[-2]

    def by_doubt(self, probabilities: Mapping[str, float]) -> list[str]:
        """Return the class names by their probability."""
        return sorted(probabilities, key=lambda name: -probabilities[name])

    def constant_prediction(self, batches: Iterable[Labels]) -> Any:
        """Return the most frequent class."""
        counts = np.zeros(self.outputs, np.int64)
        for batch in batches:
            counts += np.bincount(batch, minlength=self.outputs)
        return counts.argmax()

    def errors(self, predictions: Labels, labels: Labels) -> NDArray[np.bool_]:
        """Return which predictions are another class."""
        return np.asarray(predictions != labels)

    def error_sizes(self, logits: Logits, labels: Labels) -> NDArray[np.float64]:  # noqa: ARG002
        """Return the probability of each predicted class."""
        return Softmax.of(logits).highest

    def spread(self, predictions: Labels, labels: Labels) -> dict[str, float]:
        """Return numbers of predicted and never predicted classes, and the share of the most predicted."""
        predicted = np.bincount(predictions, minlength=self.outputs)
        labelled = np.bincount(labels, minlength=self.outputs)
        return {
            PREDICTED_CLASSES: int(np.count_nonzero(predicted)),
            NEVER_PREDICTED: int(np.count_nonzero((predicted == 0) & (labelled > 0))),
            MOST_PREDICTED: predicted.max() / len(labels),
        }

    def confidence(self, logits: Logits) -> float | None:
        """Return the probability of the predicted class."""
        return float(probabilities(logits).max())

    def confidences(self, logits: Logits) -> NDArray[np.float64]:
        """Return the probability of each predicted class."""
        return Softmax.of(logits).highest

    # How a model is trained.

    def losses(
        self, outputs: "Tensor", labels: "Tensor", weight: "Tensor | None", label_smoothing: float
    ) -> "Tensor":
        """Return the cross-entropy, with a share of the target spread over all classes (Szegedy et al.

        2016, section 7).
        """
        from torch.nn import functional

        return functional.cross_entropy(
            outputs, labels, weight, reduction="none", label_smoothing=label_smoothing
        )

    # Linear models, of texts or of frozen vectors.

    def linear_model(self, inverse: float, iterations: int, *, final: bool) -> Any:  # noqa: ARG002
        """Return a logistic regression."""
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=inverse, max_iter=iterations)

    def linear_score(self, model: Any, vectors: NDArray[np.float32], labels: Labels) -> float:
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

    def linear_head(
        self, coefficients: NDArray[np.float64], intercept: NDArray[np.float64], classes: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the logits of all classes: those that were not fitted are impossible."""
        if len(coefficients) == 1:  # of two classes, scikit-learn has the log of the odds
            coefficients = np.concatenate([-coefficients, coefficients]) / 2
            intercept = np.concatenate([-intercept, intercept]) / 2

        # scikit-learn fits only the classes that occur.
        weight = np.zeros((self.outputs, coefficients.shape[1]))
        bias = np.full(self.outputs, IMPOSSIBLE)
        weight[classes] = coefficients
        bias[classes] = intercept
        return weight, bias

    def constant_bias(self, constant: Any) -> NDArray[np.float64]:
        """Return a bias with which all other classes are impossible."""
        bias = np.full(self.outputs, IMPOSSIBLE)
        bias[int(constant)] = 0.0
        return bias

    # How predictions are judged.

    @property
    def scale(self) -> NDArray[np.float64] | None:
        """The number of each class, shape ``(classes,)``, if they are steps of a scale; else ``None``."""
        numbers = scale_numbers(self.names)
        if numbers is None:
            return None
        return np.array(numbers)

    @property
    def metrics(self) -> list[Metric]:
        """The metrics of classes; of the steps of a scale, how far predictions are off, too."""
        metrics = super().metrics
        if self.scale is not None:
            metrics.append(METRIC_TABLE["mae"])
        return metrics

    def prediction_scores(self, labels: Labels, predictions: Labels, average: Averaging) -> dict[str, float]:
        """Return the metrics of class ids, and of the steps of a scale, the mean absolute error."""
        scores = super().prediction_scores(labels, predictions, average)
        scale = self.scale
        if scale is not None:
            scores["mae"] = compute_metric(METRIC_TABLE["mae"], scale[labels], scale[predictions])
        return scores

    @property
    def slice_metric(self) -> Metric:
        """F1."""
        return METRIC_TABLE["f1"]

    def averaging(self, required: Averaging | None) -> Averaging:
        """Return how F1 is averaged: as required, else over class 1 of two classes, or over all of more."""
        is_binary = self.outputs == 2
        if required == "binary" and not is_binary:
            raise ParamsError(
                f"evaluate.f1: binary is for two classes; the data has {self.outputs}.",
                "Set it to macro, or to null.",
            )
        if required is not None:
            return required
        return "binary" if is_binary else "macro"

    def mean_loss(self, logits: Logits, labels: Labels) -> float:
        """Return the mean cross-entropy."""
        from scipy import special

        likelihoods = np.empty(len(labels))
        for start in range(0, len(labels), ROWS_AT_A_TIME):
            rows = slice(start, start + ROWS_AT_A_TIME)
            logarithms = special.log_softmax(logits[rows].astype(np.float64), axis=1)
            likelihoods[rows] = logarithms[np.arange(len(logarithms)), labels[rows]]
        return float(-np.mean(likelihoods))

    def calibrated_losses(self, logits: Logits, labels: Labels) -> RowLosses:
        """Return the log losses of logits that are divided by the temperature that suits these rows best.

        The source is Guo et al. 2017, "On Calibration of Modern Neural Networks". A fine-tuned model is too
        sure of itself, which costs it a log loss that says nothing about its predictions.
        """
        return log_losses(logits / best_temperature(logits, labels, log_losses), labels)

    def uninformed_losses(self, labels: Labels) -> RowLosses:
        """Return the log losses of the class frequencies."""
        frequencies = np.bincount(labels) / len(labels)
        return np.asarray(-np.log(frequencies[labels]))

    @property
    def curves_note(self) -> str:
        """With two classes, the curves are of class 1."""
        if self.outputs <= 2:
            return ""
        return "Curves are means over the classes, each against the rest."

    def agreement(
        self,
        trained: Logits,
        exported: Logits,
        labels: Labels,  # noqa: ARG002
        close_rmse: float,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Return 1 for the rows with the same prediction, else 0."""
        same = self.predictions(trained) == self.predictions(exported)
        return np.asarray(same, np.float64)
