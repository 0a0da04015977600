"""Curves of the reported split."""

from typing import TYPE_CHECKING

import numpy as np

from tuneline.cli.report.figures.drawing import BAD, DASHED, FIRST, GRID, MUTED, SECOND, canvas, square, to_svg
from tuneline.cli.report.reading import Columns, Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 20


def roc(curve: Columns, before: Columns | None = None) -> str:
    """True positive rate over false positive rate, and the diagonal of a model that guesses."""
    with canvas() as (figure, axes):
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle=DASHED)
        _area(axes, curve, before, "false_positive_rate", "true_positive_rate")
        square(axes, "false positive rate", "true positive rate")
        return to_svg(figure, "roc", "ROC curve")


def precision_recall(curve: Columns, before: Columns | None = None) -> str:
    """Precision over recall."""
    with canvas() as (figure, axes):
        _area(axes, curve, before, "recall", "precision")
        square(axes, "recall", "precision")
        return to_svg(figure, "pr", "Precision over recall")


def _area(axes: "Axes", curve: Columns, before: Columns | None, x: str, y: str) -> None:
    axes.fill_between(curve[x], curve[y], color=FIRST, alpha=0.08, linewidth=0)
    if before is not None:
        axes.plot(before[x], before[y], color=MUTED, linewidth=1.2, label="earlier")
    axes.plot(curve[x], curve[y], color=FIRST, label="now")
    if before is not None:
        axes.legend(loc="lower right" if x == "false_positive_rate" else "lower left")


def calibration(bins: Columns, _: Columns | None = None) -> str:
    """How often the model is right, by how sure it says it is: a dot a bin, as large as the bin has rows."""
    with canvas() as (figure, axes):
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle=DASHED)
        axes.vlines(bins["confidence"], bins["confidence"], bins["accuracy"], color=BAD, linewidth=1.2, alpha=0.5)
        share = bins["rows"] / bins["rows"].sum()
        axes.scatter(bins["confidence"], bins["accuracy"], s=14 + 260 * share, color=FIRST, alpha=0.75, linewidth=0, zorder=3)
        square(axes, "confidence", "accuracy")
        return to_svg(figure, "calibration", "Accuracy by confidence; a calibrated model lies on the diagonal")


def confidence(predictions: Predictions) -> str:
    """How sure the model is when it is right, and when it is wrong."""
    sure = predictions.probabilities.max(axis=1)
    right = predictions.answers == predictions.labels
    with canvas() as (figure, axes):
        edges = np.linspace(0, 1, BINS + 1)
        counts = [np.histogram(sure[mask], edges)[0] for mask in (right, ~right)]
        width = edges[1] * 0.86
        axes.bar(edges[:-1] + edges[1] / 2, counts[0], width, color=FIRST, alpha=0.85, label="right")
        axes.bar(edges[:-1] + edges[1] / 2, counts[1], width, bottom=counts[0], color=BAD, alpha=0.85, label="wrong")
        axes.set(xlabel="confidence", ylabel="rows", xlim=(np.clip(np.floor(sure.min() * 10) / 10, 0, 0.9), 1))
        axes.grid(visible=False, axis="x")
        axes.legend(loc="upper left")
        return to_svg(figure, "confidence", "Rows by confidence, right and wrong answers")


def scatter(points: Columns, _: Columns | None = None) -> str:
    """Predicted numbers over actual ones."""
    with canvas() as (figure, axes):
        both = np.concatenate([points["actual"], points["predicted"]])
        ends = float(both.min()), float(both.max())
        axes.plot(ends, ends, color=MUTED, linewidth=0.8, linestyle=DASHED)
        axes.scatter(points["actual"], points["predicted"], s=9, color=FIRST, alpha=0.45, linewidth=0)
        axes.set(xlabel="actual", ylabel="predicted")
        return to_svg(figure, "scatter", "Predicted over actual numbers")


def residuals(predictions: Predictions) -> str:
    """How far off the answers are."""
    off = predictions.answers - predictions.labels
    with canvas() as (figure, axes):
        axes.hist(off, bins=40, color=SECOND, alpha=0.8, rwidth=0.9)
        axes.axvline(0, color=GRID, linewidth=1)
        axes.set(xlabel="predicted - actual", ylabel="rows")
        axes.grid(visible=False, axis="x")
        return to_svg(figure, "residuals", "Distribution of the errors")
