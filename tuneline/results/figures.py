"""Figures of the report: the training run, and the predictions on the reported split."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from tuneline.core.records import Metrics
from tuneline.decisions.evidence import Evidence
from tuneline.evaluation.curves import Columns
from tuneline.evaluation.probability_scores import confidences
from tuneline.metrics.stats import Estimate
from tuneline.paths import METRICS, PLOTS
from tuneline.promises import CERTAINTY
from tuneline.promises.abstention import Abstention, observed_risks
from tuneline.reports.page import BAD, DASHED, FIGURE_WIDTH, FIRST, GRID, MUTED, SECOND, canvas, to_svg
from tuneline.repository.dvc import Lock
from tuneline.results.answers import ModelPromises
from tuneline.results.predictions import Headline, ReportedPredictions
from tuneline.results.verdict.facts import read_curve
from tuneline.words.titles import title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SMOOTH_FROM = 40
"""From this number of points on, a running mean is drawn over the logged losses."""
BINS = 20
CURVE_POINTS = 400
FEWEST_ROWS_OF_RISK = 30
"""Rows from which on the share of wrong answers is drawn."""


def read_columns(path: Path) -> Columns | None:
    """Return the columns of a file as ``read_curve`` does, as arrays; ``None`` if it has none."""
    curve = read_curve(path)
    if not curve:
        return None
    return {name: np.array(values) for name, values in curve.items()}


def draw_loss(training: Columns, validation: Columns | None, best_step: float | None) -> Markup:
    """Draw training and validation loss over steps, with the step that was kept."""
    with canvas() as (figure, axes):
        # training
        steps = training["step"]
        losses = training["loss"]
        if len(steps) < SMOOTH_FROM:
            axes.plot(steps, losses, color=FIRST, label="training")
        else:
            axes.plot(steps, losses, color=FIRST, alpha=0.35, linewidth=1)
            axes.plot(steps, running_mean(losses), color=FIRST, label="training")

        # validation
        if validation is not None and "loss" in validation:
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
                # The label is on the side of the line that has more room.
                side = "left" if best_step < (steps[0] + steps[-1]) / 2 else "right"
                top = axes.get_ylim()[1]
                axes.annotate(" kept ", (best_step, top), ha=side, va="top", color=MUTED)

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


def draw_validation_metric(validation: Columns, name: str, best_step: float | None) -> Markup:
    """Draw the metric by which the kept step was chosen, with its best evaluation circled if known."""
    steps = validation["step"]
    values = validation[name]
    is_best = steps == best_step  # no step if the best one is not known
    with canvas() as (figure, axes):
        axes.plot(steps, values, color=SECOND, marker="o", markersize=4)
        axes.plot(
            steps[is_best],
            values[is_best],
            marker="o",
            markersize=8,
            markerfacecolor="none",
            markeredgecolor=BAD,
        )
        axes.set(xlabel="step", ylabel=f"validation {name.replace('_', ' ')}")
        return to_svg(figure, "validation", f"Validation {name} over steps")


def _draw_curve(curve: Columns, *, x: str, y: str, name: str, title: str) -> Markup:
    with canvas() as (figure, axes):
        if name == "roc":
            _draw_diagonal(axes)
        axes.fill_between(curve[x], curve[y], color=FIRST, alpha=0.08, linewidth=0)
        axes.plot(curve[x], curve[y], color=FIRST)
        unit_square(axes, x.replace("_", " "), y.replace("_", " "))
        return to_svg(figure, name, title)


draw_roc = partial(
    _draw_curve, x="false_positive_rate", y="true_positive_rate", name="roc", title="ROC curve"
)
"""Draws the ROC curve, and the diagonal of random predictions."""
draw_precision_recall = partial(
    _draw_curve, x="recall", y="precision", name="pr", title="Precision over recall"
)
"""Draws precision over recall."""


def _draw_diagonal(axes: "Axes", ends: tuple[float, float] = (0, 1)) -> None:
    axes.plot(ends, ends, color=MUTED, linewidth=0.8, linestyle=DASHED)


def unit_square(axes: "Axes", x: str, y: str) -> None:
    """Scale both axes from 0 to 1, and label them."""
    # matplotlib would label all ticks with as many digits as one needs.
    ticks = [0, 0.25, 0.5, 0.75, 1]
    labels = ["0", "0.25", "0.5", "0.75", "1"]
    axes.set(
        xlim=(-0.01, 1.01),
        ylim=(-0.01, 1.02),
        xlabel=x,
        ylabel=y,
        xticks=ticks,
        yticks=ticks,
        xticklabels=labels,
        yticklabels=labels,
    )


def draw_calibration(bins: Columns) -> Markup:
    """Draw the reliability diagram: accuracy over confidence.

    The area of a dot is proportional to the rows of its bin.
    """
    with canvas() as (figure, axes):
        _draw_diagonal(axes)
        axes.vlines(
            bins["confidence"], bins["confidence"], bins["accuracy"], color=BAD, linewidth=1.2, alpha=0.5
        )
        fraction = bins["rows"] / bins["rows"].sum()
        axes.scatter(
            bins["confidence"],
            bins["accuracy"],
            s=14 + 260 * fraction,
            color=FIRST,
            alpha=0.75,
            linewidth=0,
            zorder=3,
        )
        unit_square(axes, "confidence", "accuracy")
        return to_svg(
            figure, "calibration", "Accuracy by confidence; a calibrated model lies on the diagonal"
        )


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
                [one.coverage for one in promised],
                [one.risk for one in promised],
                color=SECOND,
                zorder=3,
                label=f"promised with {100 * CERTAINTY:.0f} % certainty",
            )
        axes.set(xlabel="share of rows that are answered", ylabel="share of wrong answers", xlim=(0, 1.02))
        axes.set_ylim(0, None)
        axes.legend(loc="best")
        return to_svg(figure, "abstention", "Wrong answers over the share of rows that are answered")


def draw_confidence(predictions: ReportedPredictions) -> Markup:
    """Draw the histogram of the confidence of correct and wrong predictions."""
    # Confidence is the probability of the predicted class, not of the label.
    probability = confidences(predictions.task, predictions.logits)
    correct = ~predictions.errors
    # The axis begins at a tenth: no confidence is lower than one by the number of classes.
    lowest = np.clip(np.floor(probability.min() * 10) / 10, 0, 0.9)
    with canvas() as (figure, axes):
        axes.hist(
            [probability[correct], probability[~correct]],
            np.linspace(0, 1, BINS + 1).tolist(),
            stacked=True,
            rwidth=0.86,
            alpha=0.85,
            color=[FIRST, BAD],
            label=["correct", "wrong"],
        )
        axes.set(xlabel="confidence", ylabel="rows", xlim=(lowest, 1))
        axes.grid(visible=False, axis="x")
        axes.legend(loc="best")
        return to_svg(figure, "confidence", "Rows by confidence, correct and wrong predictions")


def draw_scatter(points: Columns) -> Markup:
    """Draw predicted over actual numbers."""
    actual = points["actual"]
    predicted = points["predicted"]
    numbers = np.concatenate([actual, predicted])
    with canvas() as (figure, axes):
        _draw_diagonal(axes, (float(numbers.min()), float(numbers.max())))
        axes.scatter(actual, predicted, s=9, color=FIRST, alpha=0.45, linewidth=0)
        axes.set(xlabel="actual", ylabel="predicted")
        return to_svg(figure, "scatter", "Predicted over actual numbers")


def draw_residuals(predictions: ReportedPredictions) -> Markup:
    """Draw the histogram of the residuals of predicted numbers."""
    residual = predictions.predicted - predictions.labels
    with canvas() as (figure, axes):
        axes.hist(residual, bins=40, color=SECOND, alpha=0.8, rwidth=0.9)
        axes.axvline(0, color=GRID, linewidth=1)
        axes.set(xlabel="predicted - actual", ylabel="rows")
        axes.grid(visible=False, axis="x")
        return to_svg(figure, "residuals", "Distribution of the residuals")


def draw_predictions(predictions: ReportedPredictions) -> dict[str, Markup]:
    """Return the figures that need the predictions of every row, by name.

    It is the histogram of the errors: confidence of classes, or residuals of numbers.
    """
    if predictions.task.has_classes:
        return {"confidence": draw_confidence(predictions)}
    return {"residuals": draw_residuals(predictions)}


class _HeadlineRow(NamedTuple):
    """A value of the headline metric, and how it is drawn."""

    name: str
    value: float
    interval: Estimate | None
    colour: str


def _headline_rows(headline: Headline) -> list[_HeadlineRow]:
    """Return the values of the headline metric from the bottom of the figure upwards."""
    rows = [_HeadlineRow("this model", headline.value, headline.interval, FIRST)]
    for title, value in reversed(list(headline.simple.items())):
        rows.append(_HeadlineRow(title.removeprefix("the "), value, None, MUTED))
    return rows


def draw_headline(headline: Headline) -> Markup:
    """Draw the headline metric of the simple models and of this model on one axis.

    Intervals are drawn where they are known.
    """
    rows = _headline_rows(headline)
    with canvas((FIGURE_WIDTH, 0.55 + 0.5 * len(rows))) as (figure, axes):
        for height, row in enumerate(rows):
            if row.interval is not None:
                ends = [row.interval.low, row.interval.high]
                axes.plot(ends, [height, height], color=row.colour, linewidth=5, alpha=0.3)
            axes.plot([row.value], [height], marker="o", markersize=7, color=row.colour)
            axes.annotate(
                f"{row.value:.3f}",
                (row.value, height),
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
            )

        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        axes.set_ylim(-0.5, len(rows) - 0.2)
        axes.margins(x=0.08)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.grid(visible=False, axis="y")
        return to_svg(
            figure,
            "headline",
            f"{title_of(headline.name)} of the baselines and of this model",
        )


CURVES: dict[str, Callable[[Columns], Markup]] = {
    "precision_recall": draw_precision_recall,
    "roc": draw_roc,
    "calibration": draw_calibration,
    "scatter": draw_scatter,
}
"""Functions that draw ``plots/evaluation/NAME.csv``, by name."""


def draw_figures(
    root: Path,
    lock: Lock,
    headline: Headline | None,
    predictions: ReportedPredictions | None,
    promises: ModelPromises | None,
) -> dict[str, Markup]:
    """Return every figure whose data exist, by name."""
    figures = {}
    if headline is not None:
        figures["headline"] = draw_headline(headline)
    figures |= _draw_training(root, lock)
    for name, draw in CURVES.items():
        curve = read_columns(root / PLOTS / f"evaluation/{name}.csv")
        if curve is not None:  # None for the curves of the other task
            figures[name] = draw(curve)

    if predictions is not None and len(predictions.labels):
        figures |= draw_predictions(predictions)
    if promises is not None:
        figures["abstention"] = draw_abstention(promises.evidence, promises.promised)
    return figures


def _draw_training(root: Path, lock: Lock) -> dict[str, Markup]:
    curve = read_columns(root / PLOTS / "training/loss.tsv")
    if curve is None:
        return {}
    validation = read_columns(root / PLOTS / "training/validation.tsv")
    best_step = Metrics.read_values(root / METRICS / "train.json").get("best_step")

    # loss, with the step that was kept: the last one unless the best is kept
    keeps_best = lock.params().get("train.keep", "best") == "best"
    kept_step = None
    if keeps_best:
        kept_step = best_step
    figures = {"loss": draw_loss(curve, validation, kept_step)}

    # metric of validation, which one evaluation does not make a curve of
    if validation is not None and len(validation["step"]) > 1:
        names = [name for name in validation if name not in ("step", "loss")]
        if names:
            figures["validation"] = draw_validation_metric(validation, names[0], best_step)
    return figures
