"""Keys of ``reports/evaluation.json`` and ``metrics/evaluate.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuneline.judge.evaluation.table import ALL_METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tuneline.judge.metrics.table import Metric

LEAKED_ROWS = "leaked_rows"
"""Key of the number of leaked rows: they repeat or resemble an earlier row."""
WITHOUT_LEAKS = "_without_leaks"
"""End of the keys of what is computed without the leaked rows."""
INDEPENDENT_ROWS = "clusters"
"""Key of the number of clusters of the rows: distinct texts, or groups."""
INDEPENDENT_WITHOUT_LEAKS = f"{INDEPENDENT_ROWS}{WITHOUT_LEAKS}"
"""Key of the number of clusters of the rows that are not leaked."""
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
MAJORITY = "majority"
"""Name of the majority baseline in keys and columns."""
FROZEN_MODEL = "frozen"
"""Name of the linear model on the frozen checkpoint in keys and columns."""
SIMPLE_MODELS = (MAJORITY, "tfidf", FROZEN_MODEL, "cosine")
"""Names of the simple models of the stage ``baseline``; those after TF-IDF need a checkpoint."""
MAJORITY_KEYS = {
    "accuracy": "majority_accuracy",
    "f1": "majority_f1",
    "macro_f1": "majority_macro_f1",
    "micro_f1": "majority_micro_f1",
    "subset_accuracy": "majority_subset_accuracy",
    "mse": "mean_mse",
    "mae": "mean_mae",
}
"""Key of the same metric of the majority (or mean) baseline, by metric."""


def baseline_key(metric: Metric, model: str) -> str | None:
    """Return the key of the same metric of one of ``SIMPLE_MODELS``; ``None`` if there is none."""
    if model == MAJORITY:
        return MAJORITY_KEYS.get(metric.name)
    return f"{model}_{metric.name}"


def over_keys(metric: Metric, model: str) -> tuple[str, str]:
    """Return the keys of the ends of the interval of ``trained model - model``, for the project's metric."""
    return f"{metric.name}_over_{model}_low", f"{metric.name}_over_{model}_high"


def interval_keys(metric: Metric) -> tuple[str, str]:
    """Return the keys of the ends of the interval of the metric itself, for the project's metric."""
    return f"{metric.name}_low", f"{metric.name}_high"


def clean_keys(metric: Metric) -> tuple[str, str, str]:
    """Return the keys of the project's metric without leaked rows, and of its interval's ends."""
    value = f"{metric.name}{WITHOUT_LEAKS}"
    return value, f"{value}_low", f"{value}_high"


def custom_metrics(evaluated: Iterable[str]) -> list[str]:
    """Return the names that ``evaluate.metrics`` added."""
    built_in = {"rows", LEAKED_ROWS, PREDICTED_CLASSES, NEVER_PREDICTED, MOST_PREDICTED}
    built_in |= {INDEPENDENT_ROWS, LABELS_PER_ROW, PREDICTED_LABELS_PER_ROW}
    for metric in ALL_METRICS.values():
        built_in |= {metric.name, f"worst_slice_{metric.name}"}
        built_in.update(interval_keys(metric), clean_keys(metric))
        for model in SIMPLE_MODELS:
            built_in.add(str(baseline_key(metric, model)))
            built_in.update(over_keys(metric, model))
    return [name for name in evaluated if name not in built_in and not name.endswith(WITHOUT_LEAKS)]


def metric_names(metrics: Mapping[str, float]) -> list[str]:
    """Return the names of a model's metrics: first of the metric table, then of ``evaluate.metrics``."""
    return [name for name in ALL_METRICS if name in metrics] + custom_metrics(metrics)


def summary(evaluated: Mapping[str, float], deciding: Metric) -> dict[str, float]:
    """Return what ``metrics/evaluate.json`` has of all metrics, which are in ``reports/evaluation.json``.

    It has the metrics of the model, the interval of the one that decides, what decides it of the simple
    models, of rows that are not leaked and of the worst slice, and the metrics of the user.
    """
    names = {*ALL_METRICS, "rows", *interval_keys(deciding), clean_keys(deciding)[0]}
    names.add(f"worst_slice_{deciding.name}")
    names.update(str(baseline_key(deciding, model)) for model in SIMPLE_MODELS)
    names.update(custom_metrics(evaluated))
    return {name: value for name, value in evaluated.items() if name in names}
