"""Curves of the training run."""

import numpy as np

from tuneline.cli.report.figures.columns import Columns
from tuneline.cli.report.figures.svg import BAD, DASHED, FIRST, MUTED, SECOND, canvas, to_svg
from tuneline.metrics import METRIC_TABLE

SMOOTH_FROM = 40
"""From this number of points on, a running mean is drawn over the logged losses."""


def loss(training: Columns, validation: Columns | None, best_step: float | None, previous: Columns | None = None) -> str:
    """Draw training loss with its running mean, and validation loss with the step that was kept, over steps."""
    with canvas() as (figure, axes):
        if previous is not None:
            mean = running_mean(previous["loss"], len(previous["loss"]) // 15)
            axes.plot(previous["step"], mean, color=MUTED, linewidth=1.2, label="previous")
        steps, losses = training["step"], training["loss"]
        smooth = len(steps) >= SMOOTH_FROM
        axes.plot(
            steps, losses, color=FIRST, alpha=0.35 if smooth else 1, linewidth=1 if smooth else 1.8, label=None if smooth else "training"
        )
        if smooth:
            axes.plot(steps, running_mean(losses, len(losses) // 15), color=FIRST, label="training")
        if validation is not None and "loss" in validation:
            axes.plot(validation["step"], validation["loss"], color=SECOND, marker="o", markersize=4, label="validation")
            if best_step is not None:
                axes.axvline(best_step, color=MUTED, linewidth=0.8, linestyle=DASHED, zorder=0)
                left = best_step < (steps[0] + steps[-1]) / 2
                axes.annotate(
                    " kept ",
                    (best_step, axes.get_ylim()[1]),
                    ha="left" if left else "right",
                    va="top",
                    color=MUTED,
                    fontsize=9,
                )
        axes.set(xlabel="step", ylabel="loss", ylim=(0, None))
        axes.legend(loc="best")
        return to_svg(figure, "loss", "Training and validation loss over steps")


def running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Return the mean of a window of ``2 * width + 1`` values around each value; the window is cut off at the ends."""
    width = max(width, 1)
    kernel = np.ones(2 * width + 1)
    summed: np.ndarray = np.convolve(values, kernel, mode="same") / np.convolve(np.ones_like(values), kernel, mode="same")
    return summed


def learning_rate(training: Columns) -> str:
    """Draw the learning rate over steps."""
    with canvas() as (figure, axes):
        axes.plot(training["step"], training["learning_rate"], color=FIRST)
        axes.set(xlabel="step", ylabel="learning rate", ylim=(0, None))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.1e}".replace("e-0", "e-").replace(".0", "") if value else "0")
        return to_svg(figure, "rate", "Learning rate over steps")


def gradient_norm(training: Columns) -> str:
    """Draw the norm of the gradient before clipping over steps."""
    with canvas() as (figure, axes):
        axes.plot(training["step"], training["gradient_norm"], color=MUTED, linewidth=1.1)
        axes.set(xlabel="step", ylabel="norm before clipping", ylim=(0, None))
        return to_svg(figure, "norm", "Gradient norm over steps")


def validation_metric(validation: Columns, name: str) -> str:
    """Draw the metric by which the kept step was chosen, with its best evaluation circled."""
    with canvas() as (figure, axes):
        axes.plot(validation["step"], validation[name], color=SECOND, marker="o", markersize=4)
        arg_best = np.nanargmax if METRIC_TABLE[name].greater_is_better else np.nanargmin
        best = int(arg_best(validation[name]))
        axes.plot(validation["step"][best], validation[name][best], marker="o", markersize=8, markerfacecolor="none", markeredgecolor=BAD)
        axes.set(xlabel="step", ylabel=f"validation {name.replace('_', ' ')}")
        return to_svg(figure, "validation", f"Validation {name} over steps")
