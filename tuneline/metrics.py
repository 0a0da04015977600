"""The metrics of the line, as plain functions of arrays."""

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats
from sklearn import metrics

from tuneline.errors import ParamsError
from tuneline.files.schemas import LabelSchema

Averaging = Literal["binary", "macro"]


def averaging(labels: LabelSchema, wanted: Averaging | None) -> Averaging:
    """The way F1 is averaged: as wanted, else binary for two classes (class 1 is the positive one) and macro for more.

    Raises:
        ParamsError: Binary is wanted, and there are not two classes.
    """
    if wanted == "binary" and labels.outputs != 2:
        raise ParamsError(f"evaluate.f1: binary is for two classes; the data has {labels.outputs}.", "Set it to macro, or to null.")
    return wanted or ("binary" if labels.outputs == 2 else "macro")


def predictions_of(logits: NDArray[np.float32], labels: LabelSchema) -> NDArray[Any]:
    """What a model predicts: the class of the highest logit (the lowest id in a tie), or the number itself.

    Args:
        logits: Shape ``[rows, outputs]``.
        labels: What the outputs mean.

    Returns:
        Shape ``[rows]``.
    """
    return logits[:, 0] if labels.is_regression else logits.argmax(axis=1)


def classification_metrics(labels: NDArray[np.int64], predictions: NDArray[np.int64], average: Averaging) -> dict[str, float]:
    """Accuracy, F1 and Matthews correlation (0 where it is undefined, as in Chicco & Jurman 2020).

    Args:
        labels: Shape ``[rows]``.
        predictions: Shape ``[rows]``.
        average: ``binary`` scores class 1; ``macro`` averages over the classes seen in either array.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A single label was found")
        matthews = float(metrics.matthews_corrcoef(labels, predictions))
    return {
        "accuracy": float(metrics.accuracy_score(labels, predictions)),
        "f1": float(metrics.f1_score(labels, predictions, average=average, zero_division=0)),
        "matthews_correlation": matthews,
    }


def regression_metrics(labels: NDArray[np.float32], predictions: NDArray[np.float32]) -> dict[str, float]:
    """Pearson's and Spearman's correlation; 0 where a constant column leaves them undefined, and the mean squared error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        pearson = float(stats.pearsonr(labels, predictions).statistic)
        spearman = float(stats.spearmanr(labels, predictions).statistic)
    return {
        "pearson": pearson if np.isfinite(pearson) else 0.0,
        "spearmanr": spearman if np.isfinite(spearman) else 0.0,
        "mse": float(np.mean((labels.astype(np.float64) - predictions) ** 2)),
    }


def loss_of(logits: NDArray[np.float32], labels: NDArray[Any]) -> float:
    """Mean cross-entropy (integer labels) or mean squared error (float labels), in float64."""
    wide = logits.astype(np.float64)
    if np.issubdtype(labels.dtype, np.floating):
        return float(np.mean((wide[:, 0] - labels) ** 2))
    return float(-np.mean(special.log_softmax(wide, axis=1)[np.arange(len(labels)), labels]))


def metrics_of(
    logits: NDArray[np.float32], labels: NDArray[Any], label_schema: LabelSchema, f1: Averaging | None = None
) -> dict[str, float]:
    """All metrics of one split: those of its task, and ``loss``.

    Args:
        logits: Shape ``[rows, outputs]``.
        labels: Shape ``[rows]``, int64 or float32.
        label_schema: What the labels mean.
        f1: How F1 is averaged; ``None`` chooses by the number of classes.
    """
    predictions = predictions_of(logits, label_schema)
    if label_schema.is_regression:
        scores = regression_metrics(labels, predictions)
    else:
        scores = classification_metrics(labels, predictions, averaging(label_schema, f1))
    return {**scores, "loss": loss_of(logits, labels)}
