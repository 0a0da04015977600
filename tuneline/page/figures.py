"""Figures of the report: the training run, and the predictions on the reported split.

The other plots of ``dvc plots show`` are not on the page.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from tuneline.checks.page import BAD, DASHED, FIRST, MUTED, SECOND, canvas, to_svg
from tuneline.core.paths import METRICS, PLOTS
from tuneline.core.stage.records import Metrics
from tuneline.judge.decisions import CERTAINTY
from tuneline.judge.decisions.abstention import Abstention, observed_risks
from tuneline.judge.decisions.evidence import Evidence
from tuneline.page.verdict.facts import CurveColumns, read_curve

SMOOTH_FROM = 40
"""From this number of points on, a running mean is drawn over the logged losses."""
CURVE_POINTS = 400
FEWEST_ROWS_OF_RISK = 30
"""Rows from which on the share of wrong answers is drawn."""


def draw_figures(root: Path, keeps_best: bool) -> dict[str, Markup]:
    """Return every figure of a file in ``plots/`` that exists, by name.

    ``keeps_best`` says that the best weights were kept, not the last ones.
    """
    figures = {}
    training = read_curve(root / PLOTS / "training/loss.tsv")
    if training:
        best_step = None
        if keeps_best:
            best_step = Metrics.read_values(root / METRICS / "train.json").get("best_step")
        figures["loss"] = draw_loss(training, read_curve(root / PLOTS / "training/validation.tsv"), best_step)
    bins = read_curve(root / PLOTS / "evaluation/calibration.csv")
    if bins:
        figures["calibration"] = draw_calibration(bins)
    points = read_curve(root / PLOTS / "evaluation/scatter.csv")
    if points:
        figures["scatter"] = draw_scatter(points)
    return figures


def draw_loss(training: CurveColumns, validation: CurveColumns, best_step: float | None) -> Markup:
    """Draw training and validation loss over steps, with the step that was kept."""
    with canvas() as (figure, axes):
        # training
        steps = training["step"]
        losses = np.array(training["loss"])
        if len(losses) < SMOOTH_FROM:
            axes.plot(steps, losses, color=FIRST, label="training")
        else:
            axes.plot(steps, losses, color=FIRST, alpha=0.35, linewidth=1)
            axes.plot(steps, running_mean(losses), color=FIRST, label="training")

        # validation
        if "loss" in validation:
            axes.plot(
                validation["step"],
                validation["loss"],
                color=SECOND,
                marker="o",
                markersize=4,
                label="validation",
            )
            if best_step is not None:
                axes.axvline(best_step, color=MUTED, linewidth=0.8, linestyle=DASHED, zorder=0)
                top = axes.get_ylim()[1]
                axes.annotate(" kept ", (best_step, top), ha="right", va="top", color=MUTED)

        axes.set(xlabel="step", ylabel="loss", ylim=(0, None))
        axes.legend(loc="best")
        return to_svg(figure, "loss", "Training and validation loss over steps")


def running_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of a window around each value, of about an eighth of all values.

    The window is cut off at the ends.
    """
    width = min(2 * max(len(values) // 15, 1) + 1, len(values))
    kernel = np.ones(width)
    sums = np.convolve(values, kernel, mode="same")
    counts = np.convolve(np.ones_like(values), kernel, mode="same")
    means: NDArray[np.float64] = sums / counts
    return means


def draw_calibration(bins: CurveColumns) -> Markup:
    """Draw the reliability diagram: accuracy over confidence.

    The area of a dot is proportional to the rows of its bin.
    """
    with canvas() as (figure, axes):
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle=DASHED)
        confidence = bins["confidence"]
        accuracy = bins["accuracy"]
        axes.vlines(confidence, confidence, accuracy, color=BAD, linewidth=1.2, alpha=0.5)
        area = 14 + 260 * np.array(bins["rows"]) / sum(bins["rows"])
        axes.scatter(confidence, accuracy, s=area, color=FIRST, alpha=0.75, linewidth=0, zorder=3)
        axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), xlabel="confidence", ylabel="accuracy")
        label = "Accuracy by confidence; a calibrated model lies on the diagonal"
        return to_svg(figure, "calibration", label)


def draw_scatter(points: CurveColumns) -> Markup:
    """Draw predicted over actual numbers."""
    actual = points["actual"]
    predicted = points["predicted"]
    numbers = np.concatenate([actual, predicted])
    ends = [float(numbers.min()), float(numbers.max())]
    with canvas() as (figure, axes):
        axes.plot(ends, ends, color=MUTED, linewidth=0.8, linestyle=DASHED)
        axes.scatter(actual, predicted, s=9, color=FIRST, alpha=0.45, linewidth=0)
        axes.set(xlabel="actual", ylabel="predicted")
        return to_svg(figure, "scatter", "Predicted over actual numbers")


def draw_abstention(evidence: Evidence, promised: Sequence[Abstention]) -> Markup:
    """Draw the share of wrong answers over the share of rows that are answered, and what can be promised."""
    coverage, risk = observed_risks(evidence.promising)
    # from some rows on: of the surest one, none or all answers are wrong
    first = min(FEWEST_ROWS_OF_RISK, len(coverage)) - 1
    shown = np.unique(np.linspace(first, len(coverage) - 1, CURVE_POINTS).astype(np.int64))
    with canvas() as (figure, axes):
        axes.plot(coverage[shown], risk[shown], color=FIRST, label="observed")
        if promised:
            axes.scatter(
                [promise.coverage for promise in promised],
                [promise.risk for promise in promised],
                color=SECOND,
                zorder=3,
                label=f"promised with {100 * CERTAINTY:.0f} % certainty",
            )
        axes.set(xlabel="share of rows that are answered", ylabel="share of wrong answers", xlim=(0, 1.02))
        axes.set_ylim(0, None)
        axes.legend(loc="best")
        return to_svg(figure, "abstention", "Wrong answers over the share of rows that are answered")
