"""Figures of the reported split: the headline metric, curves, confidence and residuals."""

from typing import TYPE_CHECKING

import numpy as np

from tuneline.cli.report.figures.columns import Columns
from tuneline.cli.report.figures.svg import BAD, DASHED, FIRST, GRID, MUTED, SECOND, canvas, to_svg, unit_square
from tuneline.cli.report.headline import Headline
from tuneline.cli.report.predictions import Predictions
from tuneline.stats import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 20


def headline(headline: Headline) -> str:
    """Draw the metric of the baseline, the previous result and this model on one axis, with intervals where they are known."""
    rows: list[tuple[str, float, Estimate | None, str]] = []
    if headline.baseline is not None:
        rows.append(("baseline", headline.baseline, None, MUTED))
    if headline.previous_value is not None and headline.previous is not None:
        rows.append((headline.previous.commit.short, headline.previous_value, headline.previous_interval, MUTED))
    rows.append(("this model", headline.value, headline.interval, FIRST))
    with canvas((5.2, 0.55 + 0.34 * len(rows))) as (figure, axes):
        for height, (_, value, interval, colour) in enumerate(reversed(rows)):
            if interval is not None:
                axes.plot([interval.low, interval.high], [height, height], color=colour, linewidth=5, alpha=0.3)
            axes.plot([value], [height], marker="o", markersize=7, color=colour)
            axes.annotate(f"{value:.3f}", (value, height), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=8.5)
        axes.set_yticks(range(len(rows)), [row[0] for row in reversed(rows)])
        axes.set_ylim(-0.5, len(rows) - 0.2)
        axes.margins(x=0.08)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.grid(visible=False, axis="y")
        return to_svg(figure, "headline", f"{headline.title} of the baseline, the previous commit and this model")


def roc(curve: Columns, previous: Columns | None = None) -> str:
    """Draw the ROC curve, and the diagonal of random predictions."""
    with canvas() as (figure, axes):
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle=DASHED)
        _area(axes, curve, previous, "false_positive_rate", "true_positive_rate")
        unit_square(axes, "false positive rate", "true positive rate")
        return to_svg(figure, "roc", "ROC curve")


def precision_recall(curve: Columns, previous: Columns | None = None) -> str:
    """Draw precision over recall."""
    with canvas() as (figure, axes):
        _area(axes, curve, previous, "recall", "precision")
        unit_square(axes, "recall", "precision")
        return to_svg(figure, "pr", "Precision over recall")


def _area(axes: "Axes", curve: Columns, previous: Columns | None, x: str, y: str) -> None:
    axes.fill_between(curve[x], curve[y], color=FIRST, alpha=0.08, linewidth=0)
    if previous is not None:
        axes.plot(previous[x], previous[y], color=MUTED, linewidth=1.2, label="previous")
    axes.plot(curve[x], curve[y], color=FIRST, label="current")
    if previous is not None:
        axes.legend(loc="lower right" if x == "false_positive_rate" else "lower left")


def calibration(bins: Columns, _: Columns | None = None) -> str:
    """Draw the reliability diagram: accuracy over confidence, one dot per bin with an area proportional to its rows."""
    with canvas() as (figure, axes):
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle=DASHED)
        axes.vlines(bins["confidence"], bins["confidence"], bins["accuracy"], color=BAD, linewidth=1.2, alpha=0.5)
        fraction = bins["rows"] / bins["rows"].sum()
        axes.scatter(bins["confidence"], bins["accuracy"], s=14 + 260 * fraction, color=FIRST, alpha=0.75, linewidth=0, zorder=3)
        unit_square(axes, "confidence", "accuracy")
        return to_svg(figure, "calibration", "Accuracy by confidence; a calibrated model lies on the diagonal")


def confidence(predictions: Predictions) -> str:
    """Draw the histogram of the confidence of correct and wrong predictions."""
    probability = predictions.probabilities.max(axis=1)
    correct = predictions.predicted == predictions.labels
    with canvas() as (figure, axes):
        edges = np.linspace(0, 1, BINS + 1)
        counts = [np.histogram(probability[mask], edges)[0] for mask in (correct, ~correct)]
        width = edges[1] * 0.86
        axes.bar(edges[:-1] + edges[1] / 2, counts[0], width, color=FIRST, alpha=0.85, label="correct")
        axes.bar(edges[:-1] + edges[1] / 2, counts[1], width, bottom=counts[0], color=BAD, alpha=0.85, label="wrong")
        axes.set(xlabel="confidence", ylabel="rows", xlim=(np.clip(np.floor(probability.min() * 10) / 10, 0, 0.9), 1))
        axes.grid(visible=False, axis="x")
        axes.legend(loc="upper left")
        return to_svg(figure, "confidence", "Rows by confidence, correct and wrong predictions")


def scatter(points: Columns, _: Columns | None = None) -> str:
    """Draw predicted over actual numbers of a regression."""
    with canvas() as (figure, axes):
        both = np.concatenate([points["actual"], points["predicted"]])
        ends = float(both.min()), float(both.max())
        axes.plot(ends, ends, color=MUTED, linewidth=0.8, linestyle=DASHED)
        axes.scatter(points["actual"], points["predicted"], s=9, color=FIRST, alpha=0.45, linewidth=0)
        axes.set(xlabel="actual", ylabel="predicted")
        return to_svg(figure, "scatter", "Predicted over actual numbers")


def residuals(predictions: Predictions) -> str:
    """Draw the histogram of the residuals of a regression."""
    residual = predictions.predicted - predictions.labels
    with canvas() as (figure, axes):
        axes.hist(residual, bins=40, color=SECOND, alpha=0.8, rwidth=0.9)
        axes.axvline(0, color=GRID, linewidth=1)
        axes.set(xlabel="predicted - actual", ylabel="rows")
        axes.grid(visible=False, axis="x")
        return to_svg(figure, "residuals", "Distribution of the residuals")
