"""The interface of a task."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.core.tables import UNLABELLED, numpy_values
from tuneline.metrics.curves import ClassProbabilities, Softmax
from tuneline.metrics.scores import prediction_metrics
from tuneline.metrics.table import Averaging, Metric, MetricKind, metrics_for, project_metric

if TYPE_CHECKING:
    from torch import Tensor

    from tuneline.params.train import ThresholdParams

Labels = NDArray[Any]
"""Labels of rows, or predictions of the same type, of shape ``(rows, *Task.label_shape)``."""
Logits = NDArray[np.float32]
"""Outputs of a model, of shape ``(rows, outputs)``."""
RowLosses = NDArray[np.float64]
"""Loss of each row, of shape ``(rows,)``."""

DECISIONS = "decisions"
"""Key of ``Task.decisions`` in the configuration of a model, and in the metadata of a table."""
LEAST_STEPS = 300
"""Optimizer steps without which few rows are not learnt, even of two classes (docs/benchmarks.md)."""
UNFILLED = "?"
"""What people replace by a label, where an empty cell is one."""
TYPICAL = 0.8
"""Accuracy, or correlation; ``Task.resolution`` says how exactly a test measures it."""
DEVIATIONS = 1.96
"""Standard errors on each side of a 95 % interval."""


def repeated(prediction: Any, rows: int, dtype: np.dtype[Any] | None = None) -> Labels:
    """Return the same prediction, a label of one row, for each of so many rows."""
    value = np.asarray(prediction, dtype)
    return np.broadcast_to(value, (rows, *value.shape)).copy()


class Task(ABC):
    """A kind of task, with the class names where it has classes."""

    kind: ClassVar[str]
    """Value of ``data.task``."""
    problem_type: ClassVar[str]
    """Value of ``problem_type`` in the configuration of transformers."""
    metric_kind: ClassVar[MetricKind]
    """Which metrics of the metric table apply."""
    has_classes: ClassVar[bool]
    """True if labels are classes. Ask the task instead, wherever it can answer."""
    errors_note: ClassVar[str]
    """What the largest errors are, in words; empty where the confidences say it."""
    error_figure: ClassVar[str]
    """Name of the histogram that shows how far predictions are off."""
    prediction_column: ClassVar[str]
    """Name of the prediction in the output of ``tuneline predict``."""
    errors_title: ClassVar[str]
    """Title of the list of errors, the largest first."""
    error_size: ClassVar[str]
    """Name of what ``error_sizes`` returns."""
    staged_type: ClassVar[pa.DataType]
    """Arrow type of a label column as it is read from the user's data: names of classes, or numbers."""
    ordered: ClassVar[bool]
    """True if labels have an order: they are binned at percentiles, and compared by their distributions."""
    correlates: ClassVar[bool]
    """True if the primary metric is a correlation, which rows with equal labels do not have."""
    one_class: ClassVar[bool]
    """True if a label is one class."""
    unfilled: ClassVar[str] = ""
    """What is in the cell of a label that people fill in."""
    takes_class_params: ClassVar[bool]
    """True if ``train.class_weights`` and ``train.label_smoothing`` can be set."""

    names: tuple[str, ...] | None
    """Class names in the order of their ids; ``None`` where labels are no classes."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Number of logits of a row."""

    @property
    @abstractmethod
    def output_names(self) -> tuple[str, ...]:
        """Name of each output of the model's head."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """The class names; empty where labels are no classes."""
        return self.names or ()

    @classmethod
    @abstractmethod
    def of_outputs(cls, names: Sequence[str]) -> Self:
        """Return the task of this kind of a model whose outputs have these names."""

    # How outputs become predictions.

    @property
    def decisions(self) -> dict[str, Any]:
        """How outputs become predictions, as the files of a model store it; empty if nothing was chosen."""
        return {}

    @property
    def thresholds_by_name(self) -> Mapping[str, float]:
        """The probability above which a row gets a class, by class name; empty where classes compete."""
        return {}

    def with_decisions(self, decisions: Mapping[str, Any]) -> Self:  # noqa: ARG002
        """Return the task with ``decisions`` that a file has stored."""
        return self

    def decided(self, logits: Logits, labels: Labels, rule: "ThresholdParams") -> Self:  # noqa: ARG002
        """Return the task with the decisions that suit rows of validation best."""
        return self

    def cross_fitted(self, logits: Logits, labels: Labels, rule: "ThresholdParams") -> Labels:  # noqa: ARG002
        """Return predictions of rows of validation that are decided as other rows of it have chosen."""
        return self.predictions(logits)

    # How labels are read and stored.

    @classmethod
    @abstractmethod
    def strata(cls, labels: pa.Array) -> pa.Array:
        """Return the strata that each row is in, as lists of text: each stratum has its share of each split.

        Labels are of ``staged_type``. A row without a label is in none.
        """

    @classmethod
    def has_labels(cls, labels: pa.Array) -> bool:
        """Return True if any row of a column of ``staged_type`` has a label: -1 and null are none."""
        unlabelled = pa.scalar(UNLABELLED).cast(cls.staged_type)
        return bool(pc.any(pc.not_equal(labels, unlabelled)).as_py())

    @classmethod
    @abstractmethod
    def observed(cls, labels: pa.Array) -> set[Any]:
        """Return the classes that occur in a column, of names or of ids; none where labels are no classes."""

    @classmethod
    def label_texts(cls, labels: pa.Array) -> pa.Array:
        """Return labels of ``staged_type`` as text, the same for equal labels; null for a missing one."""
        return labels.cast(pa.string())

    @abstractmethod
    def stored(self, labels: pa.Array, written: Sequence[str]) -> pa.Array:
        """Return labels of ``staged_type`` as ``label_type``; -1 for an unknown class.

        ``written`` is how each class is written there.
        """

    def unlabelled_column(self, rows: int) -> pa.Array:
        """Return a column of ``label_type`` for a split without labels."""
        return pa.array([UNLABELLED] * rows, self.label_type)

    @abstractmethod
    def parsed(self, texts: pa.ChunkedArray) -> Labels:
        """Return labels that a person wrote, in ``label_type``.

        A text that is no label gives a label that is not ``valid``.
        """

    @abstractmethod
    def valid(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which labels are classes of the task, or numbers, shape ``(rows,)``; False if missing."""

    @property
    @abstractmethod
    def label_limits(self) -> dict[str, Any]:
        """Limits of a column of ``codes``, by what the data checks limit."""

    @property
    @abstractmethod
    def names_text(self) -> str:
        """The class names in one line, or what labels are instead."""

    @abstractmethod
    def bins(self, train: Labels) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """Return a few bins of labels, given the labels of train: their names, and the edges between them.

        Bin ``i`` has the labels above edge ``i - 1``, up to and including edge ``i``.
        """

    def bin_values(self, labels: Labels) -> Labels:
        """Return what is counted in ``bins`` of valid labels, shape ``(values,)``: one for each row."""
        return labels

    def codes(self, labels: Labels) -> NDArray[Any]:
        """Return one number for each row, shape ``(rows,)``: equal for equal labels, -1 for a missing label.

        A data check compares columns of numbers.
        """
        return labels

    def histograms(self, counts: NDArray[np.int64], rows: int) -> list[NDArray[np.int64]]:  # noqa: ARG002
        """Return what is compared with other rows to find drift, given how often each of ``bins`` occurs.

        Each histogram counts every row once.
        """
        return [counts]

    def largest_share(self, labels: Labels) -> float:
        """Return the share of the rows that have the most frequent label, of one row or more."""
        _, rows = np.unique(labels, return_counts=True)
        return float(rows.max() / rows.sum())

    def label_figures(self, labels: Labels) -> dict[str, float]:  # noqa: ARG002
        """Return figures of the labels of a split, by name; empty if the counts of ``bins`` say all."""
        return {}

    def members(self, labels: Labels, label: int) -> NDArray[np.bool_]:
        """Return which rows have the class of this id, shape ``(rows,)``."""
        return np.asarray(labels == label)

    @property
    @abstractmethod
    def label_type(self) -> pa.DataType:
        """Arrow type of a column of labels or predictions."""

    @property
    def label_shape(self) -> tuple[int, ...]:
        """Shape of the label of one row: a single value, unless a row has several labels."""
        return ()

    @property
    def label_dtype(self) -> np.dtype[Any]:
        """Type of labels in memory."""
        dtype: np.dtype[Any] = np.dtype(self.label_type.to_pandas_dtype())
        return dtype

    def array_of(self, column: pa.Array | pa.ChunkedArray) -> Labels:
        """Return a column of labels or predictions, without nulls, as an array, which may be read-only."""
        return numpy_values(column)

    def labels_of(self, column: pa.Array | pa.ChunkedArray) -> Labels:
        """Return a column of labels as an array, which may be read-only; a null is a missing label."""
        if not column.null_count:
            return self.array_of(column)
        labels = np.full((len(column), *self.label_shape), UNLABELLED, self.label_dtype)
        labels[column.is_valid().to_numpy(zero_copy_only=False)] = self.array_of(column.drop_null())
        return labels

    def column_of(self, labels: Labels) -> pa.Array:
        """Return an array of labels or predictions as a column of ``label_type``."""
        return pa.array(labels, self.label_type)

    def is_constant(self, labels: Labels) -> bool:
        """Return True if at least one row has a label, and all rows have the same."""
        return bool((labels == labels[:1]).all())

    @property
    @abstractmethod
    def label_feature(self) -> dict[str, Any]:
        """What the datasets library stores in a table's metadata about a column of labels or predictions.

        A kind of task other than classification and regression adds its ``kind`` as ``task``.
        """

    @abstractmethod
    def unlabelled(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which rows, shape ``(rows,)``, have no label although the split has some."""

    @abstractmethod
    def label_tolerance(self, labels: Labels) -> float:
        """Return by how much labels of the same text may differ without a contradiction."""

    @abstractmethod
    def translated(self, labels: Labels, other: "Task") -> Labels:
        """Return labels or predictions of another task of this kind as this one has them.

        A class that this task does not have is -1.
        """

    @abstractmethod
    def encoded(self, predicted: pa.ChunkedArray) -> Labels:
        """Return the column ``prediction_column`` of a file as predictions of this task.

        A class that this task does not have is -1.
        """

    @abstractmethod
    def decoded(self, predictions: Labels) -> pa.Array:
        """Return predictions as the column ``prediction_column`` of a file has them."""

    @abstractmethod
    def exact_text(self, label: Any) -> str:
        """Return a label, or what a person wrote as one, as reviews and corrections have it.

        Raises:
            ValueError: The label of a regression is not numeric.
        """

    def staged_text(self, label: Any) -> str:
        """Return a label of ``staged_type`` as ``exact_text`` has it."""
        return str(label)

    def unknown_names(self, text: str) -> list[str]:  # noqa: ARG002
        """Return the names in a text of ``exact_text`` that are no class; none of a number."""
        return []

    @abstractmethod
    def label_text(self, label: Any) -> str:
        """Return a label or a prediction as people read it."""

    @abstractmethod
    def logged_label(self, label: Any) -> str:
        """Return a label as the first lines of a training show it."""

    @abstractmethod
    def label_value(self, label: Any) -> str | float:
        """Return a label or a prediction as a value of JSON."""

    @abstractmethod
    def example_labels(self, rows: int) -> Labels:
        """Return labels of several kinds, with which a function of the user is tried."""

    # What a model predicts.

    @abstractmethod
    def predictions(self, logits: Logits) -> Labels:
        """Return the prediction of each row, shape ``(rows,)``."""

    @abstractmethod
    def scores(self, logits: Logits) -> NDArray[np.float64]:
        """Return what people see of outputs, shape ``(rows, outputs)``: probabilities or numbers."""

    def probabilities_of(self, logits: Logits) -> ClassProbabilities:
        """Return the probabilities of the classes of a split, where there are classes."""
        return Softmax.of(logits)

    def window_support(self, windows: Logits, answers: Logits) -> NDArray[np.float64]:
        """Return how much each window of a document supports the answer for it, shape ``(windows,)``.

        Where nothing else is known of the outputs, it is how far they are from the answer: without that
        window, the answer would be another one.

        Args:
            windows: Outputs for the windows, ``(windows, outputs)``.
            answers: Outputs for the document of each window, of the same shape.
        """
        distances: NDArray[np.float64] = np.linalg.norm(windows - answers.astype(np.float64), axis=1)
        return distances

    @property
    @abstractmethod
    def prediction_columns(self) -> tuple[str, ...]:
        """Columns of the prediction in the output of ``tuneline predict``; all but ``label`` are numbers."""

    @property
    def prediction_types(self) -> tuple[pa.DataType, ...]:
        """Arrow types of ``prediction_columns``."""
        types = []
        for name in self.prediction_columns:
            types.append(pa.string() if name == "label" else pa.float32())
        return tuple(types)

    def cell_text(self, value: Any) -> Any:
        """Return a value of ``prediction_columns`` as a CSV file has it."""
        return value

    @abstractmethod
    def prediction_rows(self, scores: NDArray[np.float64], digits: int) -> Iterator[list[Any]]:
        """Yield the values of ``prediction_columns`` for each row of scores, rounded."""

    @abstractmethod
    def json_prediction(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the values of ``prediction_columns`` for one row as an object of JSON Lines has them."""

    @abstractmethod
    def named_scores(self, scores: Sequence[float]) -> tuple[str | float, dict[str, float]]:
        """Return the prediction of one row, and its probabilities by class name: none for a number."""

    def margin(self, probabilities: Mapping[str, float]) -> float:  # noqa: ARG002
        """Return how far the named scores of a row are from another prediction; 0 for a number."""
        return 0.0

    def by_doubt(self, probabilities: Mapping[str, float]) -> list[str]:
        """Return the names of scores of a row, first the ones that another prediction is about."""
        return list(probabilities)

    @abstractmethod
    def constant_prediction(self, batches: Iterable[Labels]) -> Any:
        """Return the best prediction without a text: the majority baseline predicts it."""

    @abstractmethod
    def errors(self, predictions: Labels, labels: Labels) -> NDArray[np.bool_]:
        """Return which predictions are errors, shape ``(rows,)``."""

    @abstractmethod
    def error_sizes(self, logits: Logits, labels: Labels) -> NDArray[np.float64]:
        """Return the size of each error, shape ``(rows,)``: confidence, or distance from the label."""

    @abstractmethod
    def error_size_text(self, size: float) -> str:
        """Return one of ``error_sizes`` with its name, as people read it."""

    @abstractmethod
    def spread(self, predictions: Labels, labels: Labels) -> dict[str, float]:
        """Return metrics of how the predictions spread, by their key: they tell a model that collapsed."""

    @abstractmethod
    def confidence(self, logits: Logits) -> float | None:
        """Return the probability of the prediction of one row; ``None`` for a task without probabilities.

        The logits have the shape ``(1, outputs)``.
        """

    @abstractmethod
    def confidences(self, logits: Logits) -> NDArray[np.float64]:
        """Return what ``confidence`` returns of one row for each row, shape ``(rows,)``; NaN for ``None``."""

    @abstractmethod
    def same_predictions(self, before: Logits, after: Logits, tolerance: float) -> NDArray[np.bool_]:
        """Return for each row whether two predictions are the same, numbers within a tolerance."""

    # How a model is trained.

    @property
    @abstractmethod
    def scales_targets(self) -> bool:
        """True if a model learns labels with mean 0 and deviation 1, and its last layer scales them back."""

    def new_bias(
        self,
        labels: Labels,  # noqa: ARG002
        class_weights: NDArray[np.float32] | None,  # noqa: ARG002
    ) -> NDArray[np.float32] | None:
        """Return the bias of a new head on a checkpoint, shape ``(outputs,)``; ``None`` to leave it at 0.

        ``labels`` are those of train, with the weights of their classes.
        """
        return None

    @property
    @abstractmethod
    def uniform_logits(self) -> Logits | None:
        """Logits of a row, ``(1, outputs)``, that prefer no prediction; ``None`` if every output is one."""

    @abstractmethod
    def matches_head(self, stored: Sequence[str]) -> bool:
        """Return True if the names of a checkpoint's outputs are the outputs of this task, in their order."""

    @abstractmethod
    def check_class_params(self, class_weights: object, label_smoothing: float) -> None:
        """Check that ``train.class_weights`` and ``train.label_smoothing`` fit the labels.

        Raises:
            ParamsError: One does not fit.
        """

    def balanced_weights(self, labels: Labels) -> NDArray[np.float32]:
        """Return rows / (classes x rows of the class), shape ``(classes,)``.

        It gives every class the same total weight (King & Zeng 2001).
        """
        counts = np.bincount(labels.astype(np.int64, copy=False), minlength=self.outputs)
        weights = len(labels) / (self.outputs * np.maximum(counts, 1))
        return weights.astype(np.float32)

    def total_weight(self, labels: Labels, class_weights: NDArray[np.float32]) -> float:
        """Return the divisor of the summed losses of rows with these weights of classes."""
        return float(class_weights[labels.astype(np.int64)].sum(dtype=np.float64))

    def weighted(self, losses: "Tensor", labels: "Tensor", weight: "Tensor") -> "Tensor":
        """Return the losses of a function of the user, ``(rows,)``, with the weights of classes.

        Raises:
            ParamsError: The weights are not of rows.
        """
        return losses * weight[labels]

    @abstractmethod
    def model_outputs(self, logits: "Tensor") -> "Tensor":
        """Return what a loss takes: logits in float32.

        The shape is ``(rows,)`` where there is one output, else ``(rows, outputs)``.
        """

    @abstractmethod
    def losses(
        self, outputs: "Tensor", labels: "Tensor", weight: "Tensor | None", label_smoothing: float
    ) -> "Tensor":
        """Return the loss of each row, ``(rows,)``.

        Args:
            outputs: Logits as ``model_outputs`` returns them.
            labels: Labels, shape ``(rows,)``.
            weight: Weight of each class.
            label_smoothing: As ``train.label_smoothing``.
        """

    # Linear models, of texts or of frozen vectors.

    @abstractmethod
    def linear_model(self, inverse: float, iterations: int, *, final: bool) -> Any:
        """Return an unfitted linear model of scikit-learn.

        Args:
            inverse: Inverse of the regularization.
            iterations: Most iterations of its fit.
            final: True for a model that predicts, False for one whose probabilities are only scored.
        """

    @abstractmethod
    def sparse_linear_model(self, inverse: float, iterations: int) -> Any:
        """Return a linear model of scikit-learn for many sparse features."""

    @abstractmethod
    def linear_score(self, model: Any, vectors: NDArray[np.float32], labels: Labels) -> float:
        """Return how well a fitted linear model predicts rows, more for a better one; 0 without rows."""

    @abstractmethod
    def linear_head(
        self, coefficients: NDArray[np.float64], intercept: NDArray[np.float64], classes: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return weight ``(outputs, features)`` and bias ``(outputs,)`` of a fitted linear model.

        The rows of the weight are of ``classes``.
        """

    @abstractmethod
    def constant_bias(self, constant: Any) -> NDArray[np.float64]:
        """Return the bias ``(outputs,)`` of a head that always predicts the same."""

    # How predictions are judged.

    @property
    def metrics(self) -> list[Metric]:
        """The metrics of the task, in the order of the metric table."""
        return metrics_for(self.metric_kind)

    @property
    def primary_metric(self) -> Metric:
        """The metric that decides by default, and by which slices are compared."""
        return self.metrics[0]

    def project_metric(self, name: str | None) -> Metric:
        """Return the metric that decides, given ``train.metric``."""
        return project_metric(self.metric_kind, name)

    def prediction_scores(self, labels: Labels, predictions: Labels, average: Averaging) -> dict[str, float]:
        """Return the metrics that predictions suffice to compute, by name."""
        return prediction_metrics(self.metric_kind, labels, predictions, average)

    @classmethod
    def least_steps(cls, classes: int) -> int:  # noqa: ARG003
        """Return the optimizer steps below which ``tuneline init`` gives fine-tuning more epochs.

        Args:
            classes: Number of classes, or labels, of the train split.
        """
        return LEAST_STEPS

    @classmethod
    @abstractmethod
    def resolution(cls, rows: str, independent: float, metric: Metric) -> str:
        """Return a sentence on how exactly a test measures the metric that decides.

        Args:
            rows: Its number of rows, in words.
            independent: Number of independent rows that they are worth.
            metric: The metric that decides.
        """

    @property
    @abstractmethod
    def slice_metric(self) -> Metric:
        """The metric that a slice shows beside the primary one."""

    @abstractmethod
    def averaging(self, required: Averaging | None) -> Averaging:
        """Return how a metric of classes is averaged: as ``evaluate.f1`` requires, else as is usual.

        Raises:
            ParamsError: It cannot be averaged as required.
        """

    @abstractmethod
    def mean_loss(self, logits: Logits, labels: Labels) -> float:
        """Return the mean loss of rows, computed in float64."""

    @abstractmethod
    def calibrated_losses(self, logits: Logits, labels: Labels) -> RowLosses:
        """Return the loss of each row once the confidence of the model is corrected."""

    @abstractmethod
    def uninformed_losses(self, labels: Labels) -> RowLosses:
        """Return the loss of each row of the best predictions without the text."""

    @abstractmethod
    def probability_metrics(self, logits: Logits, labels: Labels) -> dict[str, float]:
        """Return the metrics of probabilities, by name; empty for a task without, or if none is defined."""

    @property
    def curves_note(self) -> str:
        """What the curves of precision, ROC and calibration are of, in words; empty where it is clear."""
        return ""

    @abstractmethod
    def agreement(
        self, trained: Logits, exported: Logits, labels: Labels, close_rmse: float
    ) -> NDArray[np.float64]:
        """Return how far an exported model predicts the same as the trained one, shape ``(rows,)``.

        It is 1 for a row with the same prediction, and less for any other row: 0, unless predictions can
        agree in part.
        """

    def agreement_metrics(self, trained: Logits, exported: Logits) -> dict[str, float]:  # noqa: ARG002
        """Return other shares of what agrees than the mean of ``agreement``, by name of the metric."""
        return {}

    @abstractmethod
    def exported_quality(self, logits: Logits, labels: Labels) -> Mapping[str, float]:
        """Return the metrics that are compared beside the primary one."""
