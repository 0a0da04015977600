"""What people call metrics, simple models and predictions."""

from collections.abc import Mapping
from dataclasses import dataclass

from tuneline.evaluation.keys import MAJORITY

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
    "log_loss": "Log loss of the probabilities",
    "calibration_error": "Calibration error",
}
"""Title of each metric, by name."""
HUB_NAMES: Mapping[str, str] = {
    "accuracy": "accuracy",
    "f1": "f1",
    "matthews_correlation": "matthews_correlation",
    "pearson": "pearsonr",
    "spearmanr": "spearmanr",
    "mse": "mse",
    "mae": "mae",
}
"""Name of each metric in the evaluate library, which model cards use."""
SIMPLE_MODEL_TITLES: Mapping[str, str] = {
    MAJORITY: "the majority baseline",
    "tfidf": "TF-IDF",
    "frozen": "the frozen checkpoint",
    "cosine": "the cosine of frozen vectors",
}
"""What people call the simple models of the stage ``baseline``, by their name in keys."""


@dataclass(frozen=True)
class PredictionTerms:
    """What people call what a metric scores.

    Attributes:
        prediction: What a row gets.
        classes: What predictions are made of.
    """

    prediction: str
    classes: str


PREDICTION_TERMS: Mapping[str, PredictionTerms] = {
    "classification": PredictionTerms("class", "classes"),
    "regression": PredictionTerms("number", "numbers"),
    "multilabel": PredictionTerms("set of labels", "labels"),
}


def title_of(name: str) -> str:
    """Return a metric's name for people; the name of a custom metric is without underscores."""
    return METRIC_TITLES.get(name) or name.replace("_", " ").capitalize()
