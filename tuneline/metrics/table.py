"""The metric table: every metric of the pipeline with its formula.

Everything that names a metric reads ``METRIC_TABLE``: ``train.metric``, the choice of the best checkpoint,
evaluation, comparison, promotion, report, model card, ``tuneline show`` and ``tuneline init``. To add a
metric, add a formula and an entry here, a test, and a line in the docs. ``tuneline/metrics/scores.py``
computes the metrics of a split.

Each formula scores many bootstrap resamples at once, or the predictions themselves as a single one.
scikit-learn and SciPy score one sample at a time and take 2 s to import; the tests hold the formulas against
theirs. ``tuneline show`` reads the table without NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from tuneline.metrics.curves import ClassProbabilities

    Floats = NDArray[np.float64]
    ClassIds = NDArray[np.int64]
    LabelSets = NDArray[np.int8]
    """Which labels a row has, 0 or 1, of shape ``(rows, labels)``."""
    CountScore = Callable[[Floats, NDArray[Any], NDArray[Any], "Averaging"], Floats]
    """From counts, labels and predictions to the metric of each resample.

    Counts have the shape ``(resamples, pairs)``; labels and predictions of the distinct pairs have the shape
    ``(pairs,)``, or ``(pairs, labels)`` where a row has several labels.
    """
    RowScore = Callable[[Floats, Floats], Floats]
    """From labels and predictions of shape ``(resamples, rows)`` to the metric of each resample."""
    ProbabilityScore = Callable[["ClassProbabilities", NDArray[Any]], float | None]
    """From probabilities and labels of a split to the metric; ``None`` where it is not defined."""

Averaging = Literal["binary", "macro"]
MetricKind = Literal["classification", "regression", "multilabel"]
"""What a metric scores: classes, numbers, or sets of labels."""


@dataclass(frozen=True)
class PredictionTerms:
    """What people call what a metric scores.

    Attributes:
        prediction: What a row gets.
        classes: What predictions are made of.
    """

    prediction: str
    classes: str


PREDICTION_TERMS: Mapping[MetricKind, PredictionTerms] = {
    "classification": PredictionTerms("class", "classes"),
    "regression": PredictionTerms("number", "numbers"),
    "multilabel": PredictionTerms("set of labels", "labels"),
}
LEAKED_ROWS = "leaked_rows"
"""Key in ``metrics/evaluate.json`` of the number of leaked rows: they repeat or resemble an earlier row."""
WITHOUT_LEAKS = "_without_leaks"
"""End of the keys of what is computed without the leaked rows."""
INDEPENDENT_ROWS = "clusters"
"""Key in ``metrics/evaluate.json`` of the number of clusters of the rows: distinct texts, or groups."""
INDEPENDENT_WITHOUT_LEAKS = f"{INDEPENDENT_ROWS}{WITHOUT_LEAKS}"
"""Key of the number of clusters of the rows that are not leaked."""
MAJORITY = "majority"
SIMPLE_MODELS: Mapping[str, str] = {
    MAJORITY: "the majority baseline",
    "tfidf": "TF-IDF",
    "frozen": "the frozen checkpoint",
    "cosine": "the cosine of frozen vectors",
}
"""Simple models of the stage ``baseline``: name in keys and columns, and name for people.

Those after TF-IDF need a checkpoint.
"""
PREDICTED_CLASSES = "predicted_classes"
"""Key of the number of predicted classes, or labels."""
NEVER_PREDICTED = "never_predicted_classes"
"""Key of the number of classes, or labels, with rows that are never predicted."""
MOST_PREDICTED = "most_predicted_share"
"""Key of the share of the most predicted class, or set of labels."""
LABELS_PER_ROW = "labels_per_row"
"""Key of the mean number of labels that a row has."""
PREDICTED_LABELS_PER_ROW = "predicted_labels_per_row"
"""Key of the mean number of labels that the model gives a row."""
AT_HALF = "macro_f1_at_half"
"""Key of the macro F1 of labels whose thresholds are 0.5, whatever thresholds the model has."""
SET_AGREEMENT = "set_agreement"
"""Key of the share of rows that get the same set of labels from an exported model as from the trained one."""
LABEL_AGREEMENT = "label_agreement"
"""Key of the share of decisions on single labels that an exported model shares with the trained one."""
LOWEST_LABEL_AGREEMENT = "lowest_label_agreement"
"""Key of the same share for the label where it is the lowest."""
AGREEMENT_TITLES: Mapping[str, str] = {
    SET_AGREEMENT: "of whole sets",
    LABEL_AGREEMENT: "of single labels",
    LOWEST_LABEL_AGREEMENT: "of the worst label",
}
"""Titles of ``Task.agreement_metrics``, after the word "agreement"."""
IntervalMethod = Literal["wilson", "score", "fisher", "bootstrap", "none"]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric.

    Attributes:
        name: Key in ``metrics/*.json``, and value of ``train.metric``.
        lowest: Lower end of its range; the upper end is 1 if it has an interval.
        interval: Method of its confidence interval in ``tuneline.metrics.stats``, of independent rows.
        count_score: Formula for class ids or sets of labels; ``None`` for a metric of numbers, logits or
            probabilities.
        probability_score: Formula for probabilities of classes; ``None`` for other metrics.
        is_compared: True for a metric of probabilities that is computed for exported models, too.
        on_ranks: True if ``row_score`` takes ranks instead of values.
        baseline: Key in ``metrics/evaluate.json`` of the same metric of the majority (or mean) baseline.
        uninformed: Value, by convention, of predictions that do not depend on the text; ``None`` if
            ``baseline`` has it.
        hub_name: Name of the metric in the evaluate library; ``None`` if that does not have it.
    """

    name: str
    title: str
    kinds: tuple[MetricKind, ...]
    greater_is_better: bool = True
    lowest: float = 0.0
    interval: IntervalMethod = "none"
    count_score: CountScore | None = None
    row_score: RowScore | None = None
    probability_score: ProbabilityScore | None = None
    is_compared: bool = False
    on_ranks: bool = False
    baseline: str | None = None
    uninformed: float | None = None
    hub_name: str | None = None

    @property
    def of_predictions(self) -> bool:
        """True if predictions suffice to compute it; False if it needs logits or probabilities."""
        return self.count_score is not None or self.row_score is not None

    def of_baseline(self, model: str) -> str | None:
        """Key in ``metrics/evaluate.json`` of the same metric of a model in ``SIMPLE_MODELS``."""
        return self.baseline if model == MAJORITY else f"{model}_{self.name}"

    def over(self, model: str) -> tuple[str, str]:
        """Keys of the ends of the interval of ``trained model - model``, for the project's metric."""
        return f"{self.name}_over_{model}_low", f"{self.name}_over_{model}_high"

    @property
    def ends(self) -> tuple[str, str]:
        """Keys of the ends of the interval of the metric itself, for the project's metric."""
        return f"{self.name}_low", f"{self.name}_high"

    @property
    def without_leaks(self) -> tuple[str, str, str]:
        """Keys of the metric without leaked rows, and of its interval's ends, for the project's metric."""
        return (
            f"{self.name}{WITHOUT_LEAKS}",
            f"{self.name}{WITHOUT_LEAKS}_low",
            f"{self.name}{WITHOUT_LEAKS}_high",
        )

    @property
    def from_leaks(self) -> tuple[str, str]:
        """Keys of the ends of the interval of what the leaked rows add to the metric."""
        return f"{self.name}_from_leaks_low", f"{self.name}_from_leaks_high"

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
    """Return F1 of class 1, or the mean over the classes that a resample has in labels or predictions."""
    import numpy as np

    classes = np.array([1]) if average == "binary" else np.union1d(labels, predictions)
    is_label = labels[:, None] == classes
    is_predicted = predictions[:, None] == classes
    # F1 is 2 TP / (2 TP + FP + FN): the denominator is the labels and the predictions of a class.
    total = counts @ is_label + counts @ is_predicted
    f1 = _ratio(2 * (counts @ (is_label & is_predicted)), total)
    return np.asarray(f1.sum(axis=1) / np.maximum((total > 0).sum(axis=1), 1))


def _matthews_correlation(
    counts: Floats, labels: ClassIds, predictions: ClassIds, _average: Averaging
) -> Floats:
    """Return Matthews correlations for any number of classes (Gorodkin 2004).

    They are 0 where undefined, as in Chicco & Jurman 2020.
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


def _roc_auc(probability: ClassProbabilities, labels: NDArray[Any]) -> float | None:
    from tuneline.metrics.curves import roc_area

    return roc_area(probability, labels)


def _average_precision(probability: ClassProbabilities, labels: NDArray[Any]) -> float | None:
    from tuneline.metrics.curves import average_precision

    return average_precision(probability, labels)


def _calibration_error(probability: ClassProbabilities, labels: NDArray[Any]) -> float | None:
    from tuneline.metrics.curves import calibration, calibration_error

    return calibration_error(calibration(probability, labels))


def _brier_score(probability: ClassProbabilities, labels: NDArray[Any]) -> float | None:
    """Return the mean squared distance of the probabilities from the label (Brier 1950).

    For two classes it is half of it, as is usual. Of several labels it is the mean over the labels.
    """
    import numpy as np

    from tuneline.metrics.curves import has_class

    total = 0.0
    for label in range(probability.classes):
        distance = probability.of_class(label) - has_class(labels, label)
        total += float(np.sum(distance**2))
    score = total / len(labels)
    if labels.ndim == 2:
        return score / probability.classes
    return score / 2 if probability.classes == 2 else score


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


def _samples_f1(counts: Floats, labels: LabelSets, predictions: LabelSets, _average: Averaging) -> Floats:
    """Return the mean F1 of the rows; a row without labels that gets none has 1."""
    import numpy as np

    has_label = labels == 1
    gets_label = predictions == 1
    both = (has_label & gets_label).sum(axis=1, dtype=np.float64)
    total = has_label.sum(axis=1, dtype=np.float64) + gets_label.sum(axis=1, dtype=np.float64)
    f1 = np.where(total > 0, _ratio(2 * both, total), 1.0)
    return np.asarray(counts @ f1 / counts.sum(axis=1))


def _subset_accuracy(
    counts: Floats, labels: LabelSets, predictions: LabelSets, _average: Averaging
) -> Floats:
    """Return the share of rows that get exactly their labels."""
    accuracies: Floats = counts @ (labels == predictions).all(axis=1) / counts.sum(axis=1)
    return accuracies


def _hamming_loss(counts: Floats, labels: LabelSets, predictions: LabelSets, _average: Averaging) -> Floats:
    """Return the share of wrong decisions."""
    losses: Floats = counts @ (labels != predictions).mean(axis=1) / counts.sum(axis=1)
    return losses


def _macro_f1_at_half(probability: ClassProbabilities, labels: NDArray[Any]) -> float | None:
    """Return the macro F1 of the labels with a probability above 0.5."""
    import numpy as np

    scores = []
    for label in range(probability.classes):
        has_label = labels[:, label] == 1
        is_predicted = probability.of_class(label) > 0.5
        total = has_label.sum() + is_predicted.sum()
        if total > 0:
            scores.append(2 * (has_label & is_predicted).sum() / total)
    return float(np.mean(scores)) if scores else None


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return the quotient; 0 where the denominator is 0."""
    import numpy as np

    return np.asarray(np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0))


CLASSES: tuple[MetricKind, ...] = ("classification",)
NUMBERS: tuple[MetricKind, ...] = ("regression",)
SETS: tuple[MetricKind, ...] = ("multilabel",)
_METRICS = (
    Metric(
        name="accuracy",
        title="Accuracy",
        kinds=CLASSES,
        interval="wilson",
        count_score=_accuracy,
        baseline="majority_accuracy",
        hub_name="accuracy",
    ),
    Metric(
        name="f1",
        title="F1",
        kinds=CLASSES,
        interval="score",
        count_score=_f1,
        baseline="majority_f1",
        hub_name="f1",
    ),
    Metric(
        name="matthews_correlation",
        title="Matthews correlation",
        kinds=CLASSES,
        lowest=-1.0,
        interval="score",
        count_score=_matthews_correlation,
        uninformed=0.0,
        hub_name="matthews_correlation",
    ),
    Metric(
        name="pearson",
        title="Pearson's r",
        kinds=NUMBERS,
        lowest=-1.0,
        interval="fisher",
        row_score=_correlation,
        uninformed=0.0,
        hub_name="pearsonr",
    ),
    Metric(
        name="spearmanr",
        title="Spearman's rho",
        kinds=NUMBERS,
        lowest=-1.0,
        interval="bootstrap",
        row_score=_correlation,
        on_ranks=True,
        uninformed=0.0,
        hub_name="spearmanr",
    ),
    Metric(
        name="macro_f1",
        title="Macro F1",
        kinds=SETS,
        interval="score",
        count_score=_macro_f1,
        baseline="majority_macro_f1",
    ),
    Metric(
        name="micro_f1",
        title="Micro F1",
        kinds=SETS,
        interval="score",
        count_score=_micro_f1,
        baseline="majority_micro_f1",
    ),
    Metric(
        name="samples_f1",
        title="F1 of a row, mean",
        kinds=SETS,
        interval="score",
        count_score=_samples_f1,
        baseline="majority_samples_f1",
    ),
    Metric(
        name="subset_accuracy",
        title="Rows exactly right",
        kinds=SETS,
        interval="score",
        count_score=_subset_accuracy,
        baseline="majority_subset_accuracy",
    ),
    Metric(
        name="hamming_loss",
        title="Hamming loss",
        kinds=SETS,
        greater_is_better=False,
        interval="score",
        count_score=_hamming_loss,
        baseline="majority_hamming_loss",
    ),
    Metric(
        name="mean_average_precision",
        title="Average precision",
        kinds=SETS,
        probability_score=_average_precision,
    ),
    Metric(
        name=AT_HALF,
        title="Macro F1 at 0.5",
        kinds=SETS,
        probability_score=_macro_f1_at_half,
    ),
    Metric(name="roc_auc", title="Area under ROC", kinds=CLASSES + SETS, probability_score=_roc_auc),
    Metric(
        name="average_precision",
        title="Average precision",
        kinds=CLASSES,
        probability_score=_average_precision,
    ),
    Metric(
        name="calibration_error",
        title="Calibration error",
        kinds=CLASSES + SETS,
        greater_is_better=False,
        probability_score=_calibration_error,
        is_compared=True,
    ),
    Metric(
        name="brier_score",
        title="Brier score",
        kinds=CLASSES + SETS,
        greater_is_better=False,
        probability_score=_brier_score,
    ),
    Metric(
        name="mse",
        title="Mean squared error",
        kinds=NUMBERS,
        greater_is_better=False,
        row_score=_mean_squared_error,
        baseline="mean_mse",
        hub_name="mse",
    ),
    Metric(
        name="mae",
        title="Mean absolute error",
        kinds=NUMBERS,
        greater_is_better=False,
        row_score=_mean_absolute_error,
        baseline="mean_mae",
        hub_name="mae",
    ),
    Metric(name="loss", title="Loss", kinds=CLASSES + NUMBERS + SETS, greater_is_better=False),
)
METRIC_TABLE: Mapping[str, Metric] = {metric.name: metric for metric in _METRICS}
"""Every metric by name, in the order in which people see them.

The first metric of a task decides by default (``primary_metric``).
"""


def metrics_for(kind: MetricKind) -> list[Metric]:
    """Return the metrics of classes or numbers, in the order of the table."""
    return [metric for metric in METRIC_TABLE.values() if kind in metric.kinds]


def primary_metric(kind: MetricKind) -> Metric:
    """Return the metric that decides by default: accuracy, macro F1 of sets, or Pearson's r of numbers."""
    return metrics_for(kind)[0]


def project_metric(kind: MetricKind, name: str | None) -> Metric:
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


def custom_metrics(evaluated: Iterable[str]) -> list[str]:
    """Return the names in ``metrics/evaluate.json`` that ``evaluate.metrics`` added."""
    built_in = {"rows", LEAKED_ROWS, PREDICTED_CLASSES, NEVER_PREDICTED, MOST_PREDICTED}
    built_in |= {INDEPENDENT_ROWS, LABELS_PER_ROW, PREDICTED_LABELS_PER_ROW}
    for metric in METRIC_TABLE.values():
        built_in |= {metric.name, f"worst_slice_{metric.name}"}
        built_in.update(metric.ends, metric.without_leaks, metric.from_leaks)
        for model in SIMPLE_MODELS:
            built_in.add(str(metric.of_baseline(model)))
            built_in.update(metric.over(model))
    ends = ("_pass_rate", WITHOUT_LEAKS)
    return [name for name in evaluated if name not in built_in and not name.endswith(ends)]


def title_of(name: str) -> str:
    """Return a metric's name for people; the name of a custom metric is without underscores."""
    return METRIC_TABLE[name].title if name in METRIC_TABLE else name.replace("_", " ").capitalize()
