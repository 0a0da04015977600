"""Regression: one number for each row."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.core.errors import ParamsError
from tuneline.core.tables import UNLABELLED
from tuneline.metrics.agreement import agreeing_difference
from tuneline.metrics.table import METRIC_TABLE, Averaging, Metric, MetricKind
from tuneline.tasks.task import DEVIATIONS, TYPICAL, Labels, Logits, RowLosses, Task

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Regression(Task):
    """Labels are numbers, float32; a model has one output, which is the predicted number."""

    names: None = field(default=None, init=False)
    kind: ClassVar[str] = "regression"
    problem_type: ClassVar[str] = "regression"
    metric_kind: ClassVar[MetricKind] = "regression"
    has_classes: ClassVar[bool] = False
    errors_note: ClassVar[str] = "The predictions farthest from their labels."
    error_figure: ClassVar[str] = "residuals"
    prediction_column: ClassVar[str] = "prediction"
    errors_title: ClassVar[str] = "Largest errors"
    error_size: ClassVar[str] = "error"
    staged_type: ClassVar[pa.DataType] = pa.float64()
    ordered: ClassVar[bool] = True
    correlates: ClassVar[bool] = True
    one_class: ClassVar[bool] = False
    takes_class_params: ClassVar[bool] = False

    @classmethod
    def strata(cls, labels: pa.Array) -> pa.Array:
        """Return no stratum: numbers are no classes."""
        return pa.array([[]] * len(labels), pa.list_(pa.string()))

    @classmethod
    def observed(cls, labels: pa.Array) -> set[Any]:  # noqa: ARG003
        """Return none: numbers are no classes."""
        return set()

    @classmethod
    def resolution(cls, rows: str, independent: float, metric: Metric) -> str:  # noqa: ARG003
        """Return the half width of an interval of the correlation."""
        # Standard error of Pearson's r.
        half = DEVIATIONS * (1 - TYPICAL**2) / math.sqrt(independent)
        return f"With {rows}, test measures a correlation of {TYPICAL} to within {half:.2f}."

    @property
    def outputs(self) -> int:
        """The number."""
        return 1

    @property
    def output_names(self) -> tuple[str, ...]:
        """One name, because transformers requires it."""
        return ("score",)

    @classmethod
    def of_outputs(cls, names: Sequence[str]) -> Self:  # noqa: ARG003
        """Return the task: the name of the only output means nothing."""
        return cls()

    # How labels are read and stored.

    @property
    def label_type(self) -> pa.DataType:
        """Numbers of 32 bits."""
        return pa.float32()

    @property
    def label_feature(self) -> dict[str, Any]:
        """A value."""
        return {"dtype": "float32", "_type": "Value"}

    def stored(self, labels: pa.Array, written: Sequence[str]) -> pa.Array:  # noqa: ARG002
        """Return the numbers in 32 bits."""
        return labels.cast(self.label_type, safe=False)

    def parsed(self, texts: pa.ChunkedArray) -> Labels:
        """Return the numbers, NaN for a text that is none."""
        return np.array([_number(text) for text in texts.to_pylist()], dtype=np.float32)

    def valid(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which numbers are finite."""
        return np.asarray(np.isfinite(labels))

    @property
    def label_limits(self) -> dict[str, Any]:
        """There are none."""
        return {}

    @property
    def names_text(self) -> str:
        """Labels are numbers."""
        return "numbers"

    def bins(self, train: Labels) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """Return two bins: up to the median of train, and above."""
        numbers = train[self.valid(train)]
        median = float(np.median(numbers)) if len(numbers) else 0.0
        return (f"labels up to {median:.4g}", f"labels above {median:.4g}"), (median,)

    def unlabelled(self, labels: Labels) -> NDArray[np.bool_]:
        """Return all rows of a split whose labels all are -1, else none: -1 can be a number to predict."""
        # One row that is -1 among other numbers has the label -1.
        return np.full(len(labels), bool((labels == UNLABELLED).all()))

    def label_tolerance(self, labels: Labels) -> float:
        """Return the deviation of the labels."""
        return float(np.nanstd(labels))

    def translated(self, labels: Labels, other: Task) -> Labels:  # noqa: ARG002
        """Return the numbers."""
        return labels

    def encoded(self, predicted: pa.ChunkedArray) -> Labels:
        """Return the numbers."""
        return np.asarray(predicted.to_numpy())

    def decoded(self, predictions: Labels) -> pa.Array:
        """Return the numbers."""
        return pa.array(predictions)

    def exact_text(self, label: Any) -> str:
        """Return a number with the digits of a 32-bit float.

        Raises:
            ValueError: It is not numeric, or not finite.
        """
        number = np.float32(label)  # its text has as few digits as tell it from its neighbours
        if not np.isfinite(number):
            raise ValueError("not finite")
        return str(number)

    def label_text(self, label: Any) -> str:
        """Return a number with four digits."""
        return f"{label:.4g}"

    def logged_label(self, label: Any) -> str:
        """Return a number."""
        return f"{label:g}"

    def label_value(self, label: Any) -> str | float:
        """Return the number."""
        return float(label)

    def example_labels(self, rows: int) -> Labels:
        """Return different numbers."""
        return np.arange(rows, dtype=np.float32)

    # What a model predicts.

    def predictions(self, logits: Logits) -> Labels:
        """Return the number."""
        return logits[:, 0]

    def scores(self, logits: Logits) -> NDArray[np.float64]:
        """Return the numbers."""
        return logits.astype(np.float64)

    @property
    def prediction_columns(self) -> tuple[str, ...]:
        """The number."""
        return ("prediction",)

    def prediction_rows(self, scores: NDArray[np.float64], digits: int) -> Iterator[list[Any]]:
        """Yield the number."""
        yield from scores.round(digits).tolist()

    def json_prediction(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the number."""
        return {"prediction": values[0]}

    def named_scores(self, scores: Sequence[float]) -> tuple[str | float, dict[str, float]]:
        """Return the number."""
        return scores[0], {}

    def constant_prediction(self, batches: Iterable[Labels]) -> Any:
        """Return the mean."""
        # In 64 bits: many numbers of 32 bits would lose digits in their sum.
        total, rows = np.sum([(batch.sum(dtype=np.float64), len(batch)) for batch in batches], axis=0)
        return np.float32(total / rows)

    def confidence(self, logits: Logits) -> float | None:  # noqa: ARG002
        """Return nothing: a number has no probability."""
        return None

    def confidences(self, logits: Logits) -> NDArray[np.float64]:
        """Return NaN: numbers have no probability."""
        return np.full(len(logits), np.nan)

    def same_predictions(self, before: Logits, after: Logits, tolerance: float) -> NDArray[np.bool_]:
        """Return which numbers differ by at most the tolerance."""
        return np.asarray(np.abs(self.predictions(after) - self.predictions(before)) <= tolerance)

    # How a model is trained.

    @property
    def scales_targets(self) -> bool:
        """Numbers of any size are learned alike."""
        return True

    @property
    def uniform_logits(self) -> Logits | None:
        """There are none: each number is a prediction."""
        return None

    def matches_head(self, stored: Sequence[str]) -> bool:  # noqa: ARG002
        """Return True: the name of the only output means nothing."""
        return True

    def check_class_params(self, class_weights: object, label_smoothing: float) -> None:
        """Refuse both."""
        if class_weights is None and not label_smoothing:
            return
        key = "label_smoothing" if class_weights is None else "class_weights"
        raise ParamsError(
            f"train.{key}: the labels are numbers, and regression has no classes.", f"Remove train.{key}."
        )

    def model_outputs(self, logits: "Tensor") -> "Tensor":
        """Return the only output of each row."""
        return logits.float().squeeze(-1)

    def losses(
        self,
        outputs: "Tensor",
        labels: "Tensor",
        weight: "Tensor | None",  # noqa: ARG002
        label_smoothing: float,  # noqa: ARG002
    ) -> "Tensor":
        """Return the squared error."""
        from torch.nn import functional

        return functional.mse_loss(outputs, labels, reduction="none")

    # Linear models, of texts or of frozen vectors.

    def linear_model(self, inverse: float, iterations: int, *, final: bool) -> Any:  # noqa: ARG002  # noqa: ARG002
        """Return a ridge regression."""
        from sklearn.linear_model import Ridge

        return Ridge(alpha=1 / inverse)

    def sparse_linear_model(self, inverse: float, iterations: int) -> Any:  # noqa: ARG002
        """Return a ridge regression with the usual regularization."""
        from sklearn.linear_model import Ridge

        return Ridge(solver="sparse_cg")

    def linear_score(self, model: Any, vectors: NDArray[np.float32], labels: Labels) -> float:
        """Return R², of two rows or more."""
        return float(model.score(vectors, labels)) if len(labels) > 1 else 0.0

    def linear_head(
        self,
        coefficients: NDArray[np.float64],
        intercept: NDArray[np.float64],
        classes: Any,  # noqa: ARG002
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return both as they are."""
        return coefficients, intercept

    def constant_bias(self, constant: Any) -> NDArray[np.float64]:
        """Return the number."""
        return np.full(1, constant)

    # How predictions are judged.

    def errors(self, predictions: Labels, labels: Labels) -> NDArray[np.bool_]:  # noqa: ARG002
        """Return all: hardly a number is predicted exactly."""
        return np.ones(len(predictions), bool)

    def error_sizes(self, logits: Logits, labels: Labels) -> NDArray[np.float64]:
        """Return the absolute differences."""
        return np.asarray(np.abs(self.predictions(logits) - labels), dtype=np.float64)

    def error_size_text(self, size: float) -> str:
        """Return a difference with three digits."""
        return f"error {size:.3g}"

    def spread(self, predictions: Labels, labels: Labels) -> dict[str, float]:  # noqa: ARG002
        """Return nothing: its correlation tells a model that predicts a constant."""
        return {}

    @property
    def slice_metric(self) -> Metric:
        """The mean squared error."""
        return METRIC_TABLE["mse"]

    def averaging(self, required: Averaging | None) -> Averaging:  # noqa: ARG002
        """Return ``macro``, whatever is required: no metric of numbers is averaged over classes."""
        return "macro"

    def mean_loss(self, logits: Logits, labels: Labels) -> float:
        """Return the mean squared error."""
        return float(np.mean((logits[:, 0].astype(np.float64) - labels) ** 2))

    def calibrated_losses(self, logits: Logits, labels: Labels) -> RowLosses:
        """Return the squared errors: a number has no confidence."""
        errors: RowLosses = logits[:, 0].astype(np.float64) - labels
        return np.asarray(np.square(errors))

    def uninformed_losses(self, labels: Labels) -> RowLosses:
        """Return the squared errors of the mean."""
        return self.calibrated_losses(np.full((len(labels), 1), labels.mean(), dtype=np.float32), labels)

    def probability_metrics(self, logits: Logits, labels: Labels) -> dict[str, float]:  # noqa: ARG002
        """Return nothing: a number has no probability."""
        return {}

    def agreement(
        self, trained: Logits, exported: Logits, labels: Labels, close_rmse: float
    ) -> NDArray[np.float64]:
        """Return 1 for the numbers that differ by at most ``agreeing_difference``, else 0."""
        expected = self.predictions(trained)
        difference = np.abs(expected.astype(np.float64) - self.predictions(exported))
        agrees = difference <= agreeing_difference(expected, labels, close_rmse)
        return agrees.astype(np.float64)

    def exported_quality(self, logits: Logits, labels: Labels) -> Mapping[str, float]:  # noqa: ARG002
        """Return nothing more."""
        return {}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
