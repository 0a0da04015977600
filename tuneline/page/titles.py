"""What people call metrics, simple models and predictions."""

from collections.abc import Mapping, Sequence
from typing import Any

from tuneline.judge.evaluation.keys import MAJORITY

METRIC_TITLES: Mapping[str, str] = {
    "accuracy": "Accuracy",
    "f1": "F1",
    "matthews_correlation": "Matthews correlation",
    "pearson": "Pearson's r",
    "spearmanr": "Spearman's rho",
    "macro_f1": "Macro F1",
    "micro_f1": "Micro F1",
    "subset_accuracy": "Rows exactly right",
    "mse": "Mean squared error",
    "mae": "Mean absolute error",
    "loss": "Loss",
    "roc_auc": "Area under ROC",
    "calibration_error": "Calibration error",
}
"""Title of each metric, by name."""
SIMPLE_MODEL_TITLES: Mapping[str, str] = {
    MAJORITY: "the majority baseline",
    "tfidf": "TF-IDF",
    "frozen": "the frozen checkpoint",
    "cosine": "the cosine of frozen vectors",
}
"""What people call the simple models of the stage ``baseline``, by their name in keys."""


PREDICTION_TERMS: Mapping[str, tuple[str, str]] = {
    "classification": ("class", "classes"),
    "regression": ("number", "numbers"),
    "multilabel": ("set of labels", "labels"),
}
"""What people call what a row gets, and what predictions are made of, by kind of metric."""


def title_of(name: str, positive: str | None = None) -> str:
    """Return a metric's name for people; the name of a custom metric is without underscores.

    ``positive`` is the class that F1 of two classes is of.
    """
    if name == "f1" and positive is not None:
        return f"F1 ({positive})"
    return METRIC_TITLES.get(name) or name.replace("_", " ").capitalize()


def positive_class(names: Sequence[str] | None, decisions: Mapping[str, Any]) -> str | None:
    """Return the class that F1 of two classes is of; ``None`` of a task without two classes.

    Args:
        names: The names of the classes in the order of their ids.
        decisions: Decisions of the task, which name the class if it is not the second one.
    """
    if names is None or len(names) != 2:
        return None
    return str(decisions.get("positive", names[1]))
