"""The metrics that training computes on the validation split: those that ``train.metric`` can name.

A metric here can choose weights and decide on a promotion; a new one trains every model anew, because its
value is in ``metrics/train.json``. All other metrics are in ``tuneline/judge/evaluation/table.py``.
``tuneline/judge/metrics/scores.py`` computes the metrics of a split.

Each formula scores many bootstrap resamples at once, or the predictions themselves as a single one.
scikit-learn and SciPy score one sample at a time and take 2 s to import; the tests hold the formulas against
theirs. ``tuneline show`` reads the table without NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from tuneline.core.params.data import TaskKind
    from tuneline.model.tasks.task import ClassIds, Floats

    LabelSets = NDArray[np.int8]
    """Which labels a row has, 0 or 1, of shape ``(rows, labels)``."""
    CountScore = Callable[[Floats, NDArray[Any], NDArray[Any], "Averaging"], Floats]
    """From counts, labels and predictions to the metric of each resample.

    Counts have the shape ``(resamples, pairs)``; labels and predictions of the distinct pairs have the shape
    ``(pairs,)``, or ``(pairs, labels)`` where a row has several labels.
    """
    RowScore = Callable[[Floats, Floats], Floats]
    """From labels and predictions of shape ``(resamples, rows)`` to the metric of each resample."""

Averaging = int | Literal["macro"]
"""Class that F1 is of, or the mean over all."""


IntervalMethod = Literal["wilson", "score", "fisher", "bootstrap", "none"]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric.

    Attributes:
        name: Key in ``metrics/*.json``, and value of ``train.metric``.
        lowest: Lower end of its range; the upper end is 1 if it has an interval.
        interval: Method of its confidence interval in ``tuneline.judge.metrics.stats``, of independent rows.
        count_score: Formula for class ids or sets of labels; ``None`` for a metric of numbers, logits or
            probabilities.
        on_ranks: True if ``row_score`` takes ranks instead of values.
        uninformed: Value, by convention, of predictions that do not depend on the text; ``None`` if a simple
            model shows it.
    """

    name: str
    kinds: tuple[TaskKind, ...]
    greater_is_better: bool = True
    lowest: float = 0.0
    interval: IntervalMethod = "none"
    count_score: CountScore | None = None
    row_score: RowScore | None = None
    on_ranks: bool = False
    uninformed: float | None = None

    @property
    def of_predictions(self) -> bool:
        """True if predictions suffice to compute it; False if it needs logits or probabilities."""
        return self.count_score is not None or self.row_score is not None

    @property
    def validated(self) -> bool:
        """True if training computes it on the validation split, so that ``train.metric`` can name it."""
        return self.of_predictions or self.name == "loss"

    @property
    def resampled(self) -> bool:
        """True if a difference of this metric between two models has an interval."""
        return self.interval != "none"

    @property
    def can_decide(self) -> bool:
        """True if it can say which of two models is better: a score whose differences have an interval."""
        return self.resampled and self.greater_is_better


def _accuracy(counts: Floats, labels: ClassIds, predictions: ClassIds, _average: Averaging) -> Floats:
    accuracies: Floats = counts @ (labels == predictions) / counts.sum(axis=1)
    return accuracies


def _f1(counts: Floats, labels: ClassIds, predictions: ClassIds, average: Averaging) -> Floats:
    """Return F1 of one class, or the mean over the classes that a resample has in labels or predictions."""
    import numpy as np

    classes = np.union1d(labels, predictions) if average == "macro" else np.array([average])
    is_label = labels[:, None] == classes
    is_predicted = predictions[:, None] == classes
    # F1 is 2 TP / (2 TP + FP + FN): the denominator is the labels and the predictions of a class.
    total = counts @ is_label + counts @ is_predicted
    f1 = _ratio(2 * (counts @ (is_label & is_predicted)), total)
    return np.asarray(f1.sum(axis=1) / np.maximum((total > 0).sum(axis=1), 1))


def _matthews_correlation(
    counts: Floats, labels: ClassIds, predictions: ClassIds, _average: Averaging
) -> Floats:
    """Return Matthews correlations for any number of classes; 0 where undefined.

    Sources: Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient", 2004;
    where it is undefined, Chicco & Jurman, BMC Genomics 21, 2020.
    """
    import numpy as np

    classes = np.union1d(labels, predictions)
    # counts of each class, and of all rows, by resample
    labelled = counts @ (labels[:, None] == classes)
    predicted = counts @ (predictions[:, None] == classes)
    rows = counts.sum(axis=1)
    correct = counts @ (labels == predictions)

    covariance = correct * rows - (labelled * predicted).sum(axis=1)
    label_variance = rows**2 - (labelled**2).sum(axis=1)
    prediction_variance = rows**2 - (predicted**2).sum(axis=1)
    return _ratio(covariance, np.sqrt(label_variance * prediction_variance))


def _correlation(labels: Floats, predictions: Floats) -> Floats:
    """Return Pearson's r along the last axis; 0 where a constant column leaves it undefined."""
    import numpy as np

    # The range says whether a column is constant: rounding leaves a constant a variance.
    varies = (np.ptp(labels, axis=-1) > 0) & (np.ptp(predictions, axis=-1) > 0)
    labels = labels - labels.mean(axis=-1, keepdims=True)
    predictions = predictions - predictions.mean(axis=-1, keepdims=True)
    scale = np.sqrt((labels**2).sum(axis=-1) * (predictions**2).sum(axis=-1))
    return _ratio((labels * predictions).sum(axis=-1), np.where(varies, scale, 0.0))


def _mean_squared_error(labels: Floats, predictions: Floats) -> Floats:
    errors: Floats = ((labels - predictions) ** 2).mean(axis=-1)
    return errors


def _mean_absolute_error(labels: Floats, predictions: Floats) -> Floats:
    import numpy as np

    errors: Floats = np.abs(labels - predictions).mean(axis=-1)
    return errors


def _macro_f1(counts: Floats, labels: LabelSets, predictions: LabelSets, _average: Averaging) -> Floats:
    """Return the mean F1 over the labels that a resample has in labels or predictions; 1 if it has none."""
    import numpy as np

    both, total = _label_counts(counts, labels, predictions)
    f1 = _ratio(2 * both, total)
    occurring = (total > 0).sum(axis=1)
    return np.where(occurring > 0, f1.sum(axis=1) / np.maximum(occurring, 1), 1.0)


def _micro_f1(counts: Floats, labels: LabelSets, predictions: LabelSets, _average: Averaging) -> Floats:
    """Return F1 over all decisions; 1 where no row has a label or a prediction."""
    import numpy as np

    both, total = _label_counts(counts, labels, predictions)
    decisions = total.sum(axis=1)
    return np.where(decisions > 0, _ratio(2 * both.sum(axis=1), decisions), 1.0)


def _label_counts(counts: Floats, labels: LabelSets, predictions: LabelSets) -> tuple[Floats, Floats]:
    """Return for each label how many rows have and get it, and the sum of rows that have it and that get it.

    Both have the shape ``(resamples, labels)``; F1 is twice the former by the latter. A prediction of -1, a
    set of another model with a label that the rows do not have, gives no label.
    """
    has_label = labels == 1
    gets_label = predictions == 1
    return counts @ (has_label & gets_label), counts @ has_label + counts @ gets_label


def _subset_accuracy(
    counts: Floats, labels: LabelSets, predictions: LabelSets, _average: Averaging
) -> Floats:
    """Return the share of rows that get exactly their labels."""
    accuracies: Floats = counts @ (labels == predictions).all(axis=1) / counts.sum(axis=1)
    return accuracies


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return the quotient; 0 where the denominator is 0."""
    import numpy as np

    return np.asarray(np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0))


CLASSES: tuple[TaskKind, ...] = ("classification",)
NUMBERS: tuple[TaskKind, ...] = ("regression",)
SETS: tuple[TaskKind, ...] = ("multilabel",)
_METRICS = (
    Metric(
        name="accuracy",
        kinds=CLASSES,
        interval="wilson",
        count_score=_accuracy,
    ),
    Metric(
        name="f1",
        kinds=CLASSES,
        interval="score",
        count_score=_f1,
    ),
    Metric(
        name="matthews_correlation",
        kinds=CLASSES,
        lowest=-1.0,
        interval="score",
        count_score=_matthews_correlation,
        uninformed=0.0,
    ),
    Metric(
        name="pearson",
        kinds=NUMBERS,
        lowest=-1.0,
        interval="fisher",
        row_score=_correlation,
        uninformed=0.0,
    ),
    Metric(
        name="spearmanr",
        kinds=NUMBERS,
        lowest=-1.0,
        interval="bootstrap",
        row_score=_correlation,
        on_ranks=True,
        uninformed=0.0,
    ),
    Metric(
        name="macro_f1",
        kinds=SETS,
        interval="score",
        count_score=_macro_f1,
    ),
    Metric(
        name="micro_f1",
        kinds=SETS,
        interval="score",
        count_score=_micro_f1,
    ),
    Metric(
        name="subset_accuracy",
        kinds=SETS,
        interval="score",
        count_score=_subset_accuracy,
    ),
    Metric(
        name="mse",
        kinds=NUMBERS,
        greater_is_better=False,
        row_score=_mean_squared_error,
    ),
    Metric(
        name="mae",
        kinds=NUMBERS,
        greater_is_better=False,
        row_score=_mean_absolute_error,
    ),
    Metric(name="loss", kinds=CLASSES + NUMBERS + SETS, greater_is_better=False),
)
METRIC_TABLE: Mapping[str, Metric] = {metric.name: metric for metric in _METRICS}
"""These metrics by name, in the order in which people see them.

The first metric of a task decides by default (``primary_metric``).
"""


def metrics_for(kind: TaskKind) -> list[Metric]:
    """Return the metrics of classes or numbers, in the order of the table."""
    return [metric for metric in METRIC_TABLE.values() if kind in metric.kinds]


def primary_metric(kind: TaskKind) -> Metric:
    """Return the metric that decides by default: accuracy, macro F1 of sets, or Pearson's r of numbers."""
    return metrics_for(kind)[0]


def project_metric(kind: TaskKind, name: str | None) -> Metric:
    """Return the metric that decides in a project, from the choice of the head to the promotion.

    It is ``train.metric`` where that is a score of predictions with an interval: the reported split has to
    tell two models apart by it. A loss, an error or a function of the user chooses the best weights only;
    then ``primary_metric`` decides.

    Args:
        kind: What the task's metrics score.
        name: ``train.metric``; ``None`` where it is not known.
    """
    metric = METRIC_TABLE.get(name or "")
    if metric is None or kind not in metric.kinds or not metric.can_decide:
        return primary_metric(kind)
    return metric
