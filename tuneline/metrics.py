"""The metrics of the pipeline: one table, and the functions that compute them.

Everything that names a metric reads ``METRIC_TABLE``: ``train.metric``, the choice of the best checkpoint, evaluation, comparison,
promotion, report, model card, ``tuneline show`` and ``tuneline init``. To add a metric, add an entry, a test, and a line in the docs.

scipy.stats takes 1.4 s to import, scikit-learn 0.9 s and NumPy 0.1 s, so the functions import them: ``tuneline show`` reads the table
without.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tuneline.errors import ParamsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from tuneline.files.schemas import LabelSchema

    Floats = NDArray[np.float64]
    ClassIds = NDArray[np.int64]
    Score = Callable[[NDArray[Any], NDArray[Any], "Averaging"], float]
    """From labels and predictions of shape ``(rows,)`` to the metric."""
    CountScore = Callable[[Floats, ClassIds, ClassIds, "Averaging"], Floats]
    """The same for many resamples at once: from counts of shape ``(resamples, pairs)``, and the labels and predictions of the
    distinct pairs, of shape ``(pairs,)``, to the metric of each resample."""
    RowScore = Callable[[Floats, Floats], Floats]
    """The same for a regression: from labels and predictions of shape ``(resamples, rows)`` to the metric of each resample."""

Averaging = Literal["binary", "macro"]
Task = Literal["classification", "binary", "regression"]
"""``binary`` is a classification with two classes: the metrics of a classification apply to it too."""
IntervalMethod = Literal["wilson", "fisher", "bootstrap", "none"]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric.

    Attributes:
        name: Key in ``metrics/*.json``, and value of ``train.metric``.
        title: Name for people.
        tasks: Tasks that it applies to.
        greater_is_better: False for losses and errors.
        interval: Method of its confidence interval in ``tuneline.stats``.
        score: Computes it from predictions. ``None``: it needs logits or probabilities.
        count_score: Computes it for many bootstrap resamples of a classification; ``None`` if it cannot be resampled.
        row_score: The same for a regression.
        on_ranks: True if ``row_score`` takes ranks instead of values.
        baseline: Key in ``metrics/evaluate.json`` of the same metric of the majority (or mean) baseline.
        uninformed: Value, by convention, of predictions that do not depend on the text; ``None`` if ``baseline`` has it.
        hub_name: Name of the metric in the evaluate library; ``None`` if that does not have it.
    """

    name: str
    title: str
    tasks: tuple[Task, ...]
    greater_is_better: bool = True
    interval: IntervalMethod = "none"
    score: Score | None = None
    count_score: CountScore | None = None
    row_score: RowScore | None = None
    on_ranks: bool = False
    baseline: str | None = None
    uninformed: float | None = None
    hub_name: str | None = None

    @property
    def validated(self) -> bool:
        """True if training computes it on the validation split, so that ``train.metric`` can name it."""
        return self.score is not None or self.name == "loss"

    @property
    def resampled(self) -> bool:
        """True if two models can be compared by a paired bootstrap of this metric."""
        return self.count_score is not None or self.row_score is not None

    def compute(self, labels: NDArray[Any], predictions: NDArray[Any], average: Averaging = "macro") -> float:
        """Return the metric of predictions.

        Args:
            labels: Shape ``(rows,)``.
            predictions: Shape ``(rows,)``.
            average: How F1 is averaged.

        Raises:
            ValueError: The metric needs logits or probabilities.
        """
        if self.score is None:
            raise ValueError(f"{self.name} cannot be computed from predictions")
        return self.score(labels, predictions, average)

    def applies_to(self, task: Task) -> bool:
        """Return True if the metric is one of a task."""
        return task in self.tasks or (task == "binary" and "classification" in self.tasks)


def _accuracy(labels: NDArray[Any], predictions: NDArray[Any], _average: Averaging) -> float:
    return float((labels == predictions).mean())


def _f1(labels: NDArray[Any], predictions: NDArray[Any], average: Averaging) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(labels, predictions, average=average, zero_division=0))


def _matthews(labels: NDArray[Any], predictions: NDArray[Any], _average: Averaging) -> float:
    """Return the Matthews correlation; 0 where it is undefined, as in Chicco & Jurman 2020."""
    from sklearn.metrics import matthews_corrcoef

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A single label was found")
        return float(matthews_corrcoef(labels, predictions))


def _pearson(labels: NDArray[Any], predictions: NDArray[Any], _average: Averaging) -> float:
    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        return _zero_if_undefined(stats.pearsonr(labels, predictions).statistic)


def _spearman(labels: NDArray[Any], predictions: NDArray[Any], _average: Averaging) -> float:
    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        return _zero_if_undefined(stats.spearmanr(labels, predictions).statistic)


def _zero_if_undefined(correlation: Any) -> float:
    """Return a correlation, or 0 where a constant column leaves it undefined."""
    return float(correlation) if math.isfinite(correlation) else 0.0


def _mse(labels: NDArray[Any], predictions: NDArray[Any], _average: Averaging) -> float:
    return float(((labels.astype("float64") - predictions) ** 2).mean())


def _accuracies(counts: Floats, labels: ClassIds, predictions: ClassIds, _average: Averaging) -> Floats:
    accuracies: Floats = counts @ (labels == predictions) / counts.sum(axis=1)
    return accuracies


def _f1s(counts: Floats, labels: ClassIds, predictions: ClassIds, average: Averaging) -> Floats:
    """Return F1 of class 1, or the mean over the classes that a resample has in labels or predictions."""
    import numpy as np

    classes = np.array([1]) if average == "binary" else np.union1d(labels, predictions)
    is_label, is_predicted = labels[:, None] == classes, predictions[:, None] == classes
    correct = counts @ (is_label & is_predicted)
    total = counts @ is_label + counts @ is_predicted
    f1 = np.divide(2 * correct, total, out=np.zeros_like(correct), where=total > 0)
    return np.asarray(f1.sum(axis=1) / np.maximum((total > 0).sum(axis=1), 1))


def _matthews_correlations(counts: Floats, labels: ClassIds, predictions: ClassIds, _average: Averaging) -> Floats:
    """Return Matthews correlations for any number of classes (Gorodkin 2004); 0 where undefined."""
    import numpy as np

    classes = np.union1d(labels, predictions)
    labelled, predicted = counts @ (labels[:, None] == classes), counts @ (predictions[:, None] == classes)
    rows, correct = counts.sum(axis=1), counts @ (labels == predictions)
    covariance = correct * rows - (labelled * predicted).sum(axis=1)
    scale = np.sqrt((rows**2 - (labelled**2).sum(axis=1)) * (rows**2 - (predicted**2).sum(axis=1)))
    return np.asarray(np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0))


def _pearson_correlations(labels: Floats, predictions: Floats) -> Floats:
    """Return Pearson's r along the last axis; 0 where undefined."""
    import numpy as np

    labels = labels - labels.mean(axis=-1, keepdims=True)
    predictions = predictions - predictions.mean(axis=-1, keepdims=True)
    covariance = (labels * predictions).sum(axis=-1)
    scale = np.sqrt((labels**2).sum(axis=-1) * (predictions**2).sum(axis=-1))
    return np.asarray(np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0))


_METRICS = (
    Metric(
        name="accuracy",
        title="Accuracy",
        tasks=("classification",),
        interval="wilson",
        score=_accuracy,
        count_score=_accuracies,
        baseline="majority_accuracy",
        hub_name="accuracy",
    ),
    Metric(
        name="f1",
        title="F1",
        tasks=("classification",),
        interval="bootstrap",
        score=_f1,
        count_score=_f1s,
        baseline="majority_f1",
        hub_name="f1",
    ),
    Metric(
        name="matthews_correlation",
        title="Matthews correlation",
        tasks=("classification",),
        interval="bootstrap",
        score=_matthews,
        count_score=_matthews_correlations,
        uninformed=0.0,
        hub_name="matthews_correlation",
    ),
    Metric(
        name="pearson",
        title="Pearson's r",
        tasks=("regression",),
        interval="fisher",
        score=_pearson,
        row_score=_pearson_correlations,
        uninformed=0.0,
        hub_name="pearsonr",
    ),
    Metric(
        name="spearmanr",
        title="Spearman's rho",
        tasks=("regression",),
        interval="bootstrap",
        score=_spearman,
        row_score=_pearson_correlations,
        on_ranks=True,
        uninformed=0.0,
        hub_name="spearmanr",
    ),
    Metric(name="roc_auc", title="Area under ROC", tasks=("classification",)),
    Metric(name="average_precision", title="Average precision", tasks=("classification",)),
    Metric(name="calibration_error", title="Calibration error", tasks=("classification",), greater_is_better=False),
    Metric(
        name="mse",
        title="Mean squared error",
        tasks=("regression",),
        greater_is_better=False,
        score=_mse,
        baseline="mean_mse",
        hub_name="mse",
    ),
    Metric(name="loss", title="Loss", tasks=("classification", "regression"), greater_is_better=False),
)
METRIC_TABLE: Mapping[str, Metric] = {metric.name: metric for metric in _METRICS}
"""Every metric by name, in the order in which people see them; the first of a task is the one that gates compare by default."""


def task_of(labels: LabelSchema) -> Task:
    """Return the task of a label schema."""
    return "regression" if labels.is_regression else "binary" if labels.outputs == 2 else "classification"


def metrics_for(task: Task) -> list[Metric]:
    """Return the metrics of a task, in the order of the table."""
    return [metric for metric in METRIC_TABLE.values() if metric.applies_to(task)]


def primary_metric(task: Task) -> Metric:
    """Return the metric that gates compare by default: accuracy, or Pearson's r for a regression."""
    return metrics_for(task)[0]


def averaging(labels: LabelSchema, required: Averaging | None) -> Averaging:
    """Return how F1 is averaged: as required, else binary for two classes (class 1 is the positive one) and macro for more.

    Raises:
        ParamsError: Binary is required, and there are not two classes.
    """
    if required == "binary" and labels.outputs != 2:
        raise ParamsError(f"evaluate.f1: binary is for two classes; the data has {labels.outputs}.", "Set it to macro, or to null.")
    return required or ("binary" if labels.outputs == 2 else "macro")


def predictions_of(logits: NDArray[np.float32], labels: LabelSchema) -> NDArray[Any]:
    """Return the class of the highest logit (the lowest id in a tie), or the predicted number of a regression.

    Args:
        logits: Shape ``(rows, outputs)``.
        labels: Label schema.

    Returns:
        Shape ``(rows,)``.
    """
    return logits[:, 0] if labels.is_regression else logits.argmax(axis=1)


def classification_metrics(labels: ClassIds, predictions: ClassIds, average: Averaging) -> dict[str, float]:
    """Return the metrics of a classification by name.

    Args:
        labels: Shape ``(rows,)``.
        predictions: Shape ``(rows,)``.
        average: ``binary`` scores class 1; ``macro`` averages over the classes present in either array.
    """
    task: Task = "binary" if average == "binary" else "classification"
    return {metric.name: metric.score(labels, predictions, average) for metric in metrics_for(task) if metric.score}


def regression_metrics(labels: NDArray[np.float32], predictions: NDArray[np.float32]) -> dict[str, float]:
    """Return the metrics of a regression by name; correlations are 0 where a constant column leaves them undefined.

    Args:
        labels: Shape ``(rows,)``; at least two rows.
        predictions: Shape ``(rows,)``.
    """
    return {metric.name: metric.score(labels, predictions, "macro") for metric in metrics_for("regression") if metric.score}


def loss_of(logits: NDArray[np.float32], labels: NDArray[Any]) -> float:
    """Return the mean cross-entropy (integer labels) or mean squared error (float labels), computed in float64."""
    import numpy as np
    from scipy import special

    wide = logits.astype(np.float64)
    if np.issubdtype(labels.dtype, np.floating):
        return float(np.mean((wide[:, 0] - labels) ** 2))
    return float(-np.mean(special.log_softmax(wide, axis=1)[np.arange(len(labels)), labels]))


def metrics_of(
    logits: NDArray[np.float32], labels: NDArray[Any], label_schema: LabelSchema, f1: Averaging | None = None
) -> dict[str, float]:
    """Return all metrics of one split: those of its task, and ``loss``.

    Args:
        logits: Shape ``(rows, outputs)``.
        labels: Shape ``(rows,)``, int64 or float32.
        label_schema: Label schema.
        f1: How F1 is averaged; ``None`` chooses by the number of classes.
    """
    predictions = predictions_of(logits, label_schema)
    if label_schema.is_regression:
        scores = regression_metrics(labels, predictions)
    else:
        scores = classification_metrics(labels, predictions, averaging(label_schema, f1))
    return {**scores, "loss": loss_of(logits, labels)}


def confusion_matrix(labels: ClassIds, predictions: ClassIds, classes: int) -> Floats:
    """Return the confusion matrix of shape ``(classes, classes)``; rows are labels."""
    import numpy as np

    counts = np.bincount(labels * classes + predictions, minlength=classes * classes)
    return counts.astype(np.float64).reshape(classes, classes)
