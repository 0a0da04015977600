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
from tuneline.evaluation.probability_scores import confidences
from tuneline.metrics.stats import Estimate
from tuneline.paths import METRICS, PLOTS
from tuneline.promises import CERTAINTY
from tuneline.promises.abstention import Abstention, observed_risks
from tuneline.reports.page import BAD, DASHED, FIGURE_WIDTH, FIRST, GRID, MUTED, SECOND, canvas, to_svg
from tuneline.repository.dvc import Lock
from tuneline.repository.git import PreviousResult
from tuneline.results.answers import ModelPromises
from tuneline.results.predictions import Cooccurrence, Headline, ReportedPredictions
from tuneline.results.task_words import error_figure
from tuneline.results.verdict.facts import read_curve
from tuneline.words.titles import title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Columns = dict[str, NDArray[np.float64]]

SMOOTH_FROM = 40
"""From this number of points on, a running mean is drawn over the logged losses."""
BINS = 20
CURVE_POINTS = 400
FEWEST_ROWS_OF_RISK = 30
"""Rows from which on the share of wrong answers is drawn."""


def read_columns(path: Path, suffix: str | None = None) -> Columns | None:
    """Return the columns of a file as ``read_curve`` does, as arrays; ``None`` if it has none."""
    curve = read_curve(path, suffix)
    if not curve:
        return None
    return {name: np.array(values) for name, values in curve.items()}


def draw_loss(
    training: Columns, validation: Columns | None, best_step: float | None, previous: Columns | None = None
) -> Markup:
    """Draw training and validation loss over steps, with the step that was kept."""
    with canvas() as (figure, axes):
        # previous result, behind the present one
        if previous is not None:
            smoothed = running_mean(previous["loss"])
            axes.plot(previous["step"], smoothed, color=MUTED, linewidth=1.2, label="previous")

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


def draw_over_steps(training: Columns, column: str, name: str, unit: str, colour: str) -> Markup:
    """Draw a column of the training log over steps, from 0 upwards."""
    with canvas() as (figure, axes):
        axes.plot(training["step"], training[column], color=colour, linewidth=1.4)
        axes.set(xlabel="step", ylabel=unit, ylim=(0, None))
        if axes.get_ylim()[1] < 0.01:  # "0.00002" would widen the axis: as with a learning rate
            axes.yaxis.set_major_formatter(_format_exponent)
        return to_svg(figure, name, f"{column.replace('_', ' ').capitalize()} over steps")


def _format_exponent(value: float, _position: float) -> str:
    """Return a number as ``2e-5``: without a leading zero of the exponent, and without ``.0``."""
    if not value:
        return "0"
    return f"{value:.1e}".replace("e-0", "e-").replace(".0", "")


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


def _draw_curve(
    curve: Columns, previous: Columns | None = None, *, x: str, y: str, name: str, title: str
) -> Markup:
    with canvas() as (figure, axes):
        # Later artists cover earlier ones: the present curve is drawn last.
        if name == "roc":
            _draw_diagonal(axes)
        axes.fill_between(curve[x], curve[y], color=FIRST, alpha=0.08, linewidth=0)
        if previous is not None:
            axes.plot(previous[x], previous[y], color=MUTED, linewidth=1.2, label="previous")
        axes.plot(curve[x], curve[y], color=FIRST, label="current")
        if previous is not None:
            axes.legend(loc="lower right" if name == "roc" else "lower left")
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


def draw_calibration(bins: Columns, _: Columns | None = None) -> Markup:
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


def draw_scatter(points: Columns, _: Columns | None = None) -> Markup:
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

    They are the histogram of the errors, confidence of classes or residuals of numbers, and which labels
    occur together where a row has several.
    """
    drawn_by = {"confidence": draw_confidence, "residuals": draw_residuals}
    name = error_figure(predictions.task)
    figures = {name: drawn_by[name](predictions)}
    together = Cooccurrence.of(predictions)
    if together is not None:
        figures |= draw_cooccurrence(together)
    return figures


SHOWN_NAME = 14
"""Characters of a label's name in the figure of labels that occur together."""
WIDEST_DOT = 0.9
"""Diameter of the dot of all rows there, in distances of two labels."""


def draw_cooccurrence(together: Cooccurrence) -> dict[str, Markup]:
    """Return two figures of which labels occur together, by name: in the labels, and in the predictions."""
    return {
        "together_labels": _draw_together(
            together.names, together.labelled, FIRST, "together_labels", "Labels that rows have together"
        ),
        "together_predictions": _draw_together(
            together.names,
            together.predicted,
            SECOND,
            "together_predictions",
            "Labels that the model gives together",
        ),
    }


def _draw_together(
    names: Sequence[str], rows: NDArray[np.float64], colour: str, name: str, title: str
) -> Markup:
    """Draw for each label, in a row, the share of its rows that have each other label, as the area of a dot.

    ``rows`` has the rows with both labels, ``(labels, labels)``, and the rows with a label on the diagonal.
    """
    from matplotlib.patches import Circle

    with_label = np.diag(rows)[:, None]
    shares = np.divide(rows, with_label, out=np.zeros_like(rows), where=with_label > 0)
    np.fill_diagonal(shares, 0.0)
    shown = []
    for label in names:
        shown.append(label if len(label) <= SHOWN_NAME else f"{label[: SHOWN_NAME - 1]}…")

    with canvas((FIGURE_WIDTH, FIGURE_WIDTH)) as (figure, axes):
        for down, across in np.argwhere(shares > 0).tolist():
            radius = WIDEST_DOT / 2 * np.sqrt(shares[down, across])
            axes.add_patch(Circle((across, down), radius, color=colour, alpha=0.8, linewidth=0))

        last = len(names) - 0.5
        axes.set(xlim=(-0.5, last), ylim=(last, -0.5), aspect="equal")
        axes.set_xticks(range(len(names)), shown, rotation=90)
        axes.set_yticks(range(len(names)), shown)
        axes.xaxis.tick_top()
        axes.spines[["left", "bottom"]].set_visible(False)
        return to_svg(figure, name, title)


class _HeadlineRow(NamedTuple):
    """A value of the headline metric, and how it is drawn."""

    name: str
    value: float
    interval: Estimate | None
    colour: str


def _headline_rows(headline: Headline) -> list[_HeadlineRow]:
    """Return the values of the headline metric from the bottom of the figure upwards."""
    rows = [_HeadlineRow("this model", headline.value, headline.interval, FIRST)]
    if headline.previous is not None and headline.previous_value is not None:
        commit = headline.previous.commit.short
        rows.append(_HeadlineRow(commit, headline.previous_value, headline.previous_interval, MUTED))
    for title, value in reversed(list(headline.simple.items())):
        rows.append(_HeadlineRow(title.removeprefix("the "), value, None, MUTED))
    return rows


def draw_headline(headline: Headline) -> Markup:
    """Draw the headline metric of the simple models, the previous result and this model on one axis.

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
            f"{title_of(headline.name)} of the baselines, the previous commit and this model",
        )


CURVES: dict[str, Callable[[Columns, Columns | None], Markup]] = {
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
    """Return every figure whose data exist, by name.

    Curves of the previous result are drawn too if DVC's cache has them.
    """
    figures = {}
    previous = None
    if headline is not None:
        previous = headline.previous
        figures["headline"] = draw_headline(headline)
    figures |= _draw_training(root, lock, previous)

    # Curves of other rows, or of another metric, are no comparison.
    comparable = None
    if previous is not None and previous.comparable:
        comparable = previous
    for name, draw in CURVES.items():
        path = PLOTS / f"evaluation/{name}.csv"
        curve = read_columns(root / path)
        if curve is not None:  # None for the curves of the other task
            figures[name] = draw(curve, _read_previous(comparable, path))

    if predictions is not None and len(predictions.labels):
        figures |= draw_predictions(predictions)
    if promises is not None:
        figures["abstention"] = draw_abstention(promises.evidence, promises.promised)
    return figures


def _read_previous(previous: PreviousResult | None, path: Path) -> Columns | None:
    if previous is None:
        return None
    cached = previous.file(path.as_posix())
    if cached is None:
        return None
    return read_columns(cached, path.suffix)  # a file in the cache has no suffix of its own


def _draw_training(root: Path, lock: Lock, previous: PreviousResult | None) -> dict[str, Markup]:
    path = PLOTS / "training/loss.tsv"
    curve = read_columns(root / path)
    if curve is None:
        return {}
    validation = read_columns(root / PLOTS / "training/validation.tsv")
    best_step = Metrics.read_values(root / METRICS / "train.json").get("best_step")

    # loss, with the step that was kept: the last one unless the best is kept
    keeps_best = lock.params().get("train.keep", "best") == "best"
    kept_step = None
    if keeps_best:
        kept_step = best_step
    figures = {"loss": draw_loss(curve, validation, kept_step, _read_previous(previous, path))}

    # rate, and gradient norm where it was logged
    figures["rate"] = draw_over_steps(curve, "learning_rate", "rate", "learning rate", FIRST)
    if "gradient_norm" in curve:
        figures["norm"] = draw_over_steps(curve, "gradient_norm", "norm", "norm before clipping", MUTED)

    # metric of validation, which one evaluation does not make a curve of
    if validation is not None and len(validation["step"]) > 1:
        names = [name for name in validation if name not in ("step", "loss")]
        if names:
            figures["validation"] = draw_validation_metric(validation, names[0], best_step)
    return figures
