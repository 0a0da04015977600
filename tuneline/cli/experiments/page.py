"""The page of the experiments: all learning curves, the parameters as parallel coordinates, and the table."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from tuneline.cli.experiments.table import ExperimentRow, ExperimentRows, format_value
from tuneline.core.paths import PLOTS
from tuneline.metrics.table import title_of
from tuneline.project.dvc import cached_folder
from tuneline.project.params_file import flat_values
from tuneline.reports.page import (
    FIGURE_WIDTH,
    FIRST,
    MUTED,
    SECOND,
    SURFACE,
    canvas,
    format_number,
    template_environment,
    to_svg,
)
from tuneline.results.figures import Columns, read_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TEMPLATES = Path(__file__).parent / "templates"
LOGARITHMIC = 10
"""Ratio of the largest to the smallest value of a parameter from which its axis is logarithmic."""
MAX_AXES = 16
MAX_POINTS = 300
"""Points of a curve that are drawn."""


def render_experiments(root: Path, rows: ExperimentRows) -> str:
    """Return the page as HTML. Everything that comes from the project is escaped."""
    templates = template_environment(TEMPLATES)
    return templates.get_template("experiments.html.j2").render(
        rows=rows,
        metric=title_of(rows.metric) if rows.metric else "metric",
        best=next((row for row in rows.rows if row.is_best), None),
        curves=draw_curves(root, rows),
        parallel=draw_parallel(rows),
        tested=any(row.test is not None for row in rows.rows),
    )


def draw_curves(root: Path, rows: ExperimentRows) -> list[tuple[str, Markup]]:
    """Draw the validation metric and the training loss of every experiment over steps, as far as DVC's cache has them."""
    folders = [
        (row, cached_folder(root, row.experiment.lock, (PLOTS / "training").as_posix()) or {})
        for row in rows.rows
    ]
    drawn = []
    planned = (
        ("validation.tsv", rows.metric or "loss", f"validation {rows.metric or 'loss'}"),
        ("loss.tsv", "loss", "training loss"),
    )
    for index, (file, column, title) in enumerate(planned):
        read = [(row, read_columns(path, ".tsv")) for row, folder in folders if (path := folder.get(file))]
        curves = [(row, columns) for row, columns in read if columns and column in columns]
        if curves:
            drawn.append((title.capitalize(), _draw_lines(f"curve{index}", title, column, curves)))
    return drawn


def _draw_lines(
    name: str, title: str, column: str, curves: Sequence[tuple[ExperimentRow, Columns]]
) -> Markup:
    with canvas() as (figure, axes):
        for row, columns in sorted(curves, key=lambda curve: _order(curve[0])):
            every = math.ceil(len(columns["step"]) / MAX_POINTS)
            axes.plot(columns["step"][::every], columns[column][::every], **_style(_kind(row), len(curves)))
        axes.set(xlabel="step", ylabel=title)
        _add_legend(axes, [row for row, _ in curves])
        return to_svg(figure, name, f"{title.capitalize()} over steps, {len(curves)} experiments")


POINT_KINDS = ("others", "base", "best")
"""In the order in which they are drawn: the best one last, above all others."""


def _kind(row: ExperimentRow) -> str:
    return "best" if row.is_best else "others" if row.differs else "base"


def _order(row: ExperimentRow) -> int:
    return POINT_KINDS.index(_kind(row))


def _style(kind: str, number_of_lines: int = 1) -> dict[str, Any]:
    if kind == "best":
        return {"color": FIRST, "linewidth": 2.2}
    if kind == "base":
        return {"color": SECOND, "linewidth": 1.6, "linestyle": (0, (7, 3))}
    return {"color": MUTED, "linewidth": 1.0, "alpha": max(0.25, min(0.7, 8 / number_of_lines))}


def _add_legend(axes: "Axes", rows: Sequence[ExperimentRow]) -> None:
    kinds = sorted({_kind(row) for row in rows}, key=POINT_KINDS.index, reverse=True)
    axes.legend([axes.plot([], [], **_style(kind))[0] for kind in kinds], kinds, loc="best")


def draw_parallel(rows: ExperimentRows) -> Markup | None:
    """Draw one axis for each parameter that differs, below them the metric, and one line for each experiment.

    ``None`` if fewer than two experiments have a score, or nothing differs. The axes are horizontal: any
    number fits a narrow screen.
    """
    scored = [row for row in rows.rows if row.score and row.score.metric == rows.metric]
    values = [flat_values(row.experiment.params) for row in scored]
    keys = (
        [key for key in rows.short if any(one.get(key) != values[0].get(key) for one in values)][:MAX_AXES]
        if values
        else []
    )
    if len(scored) < 2 or not keys:
        return None
    axes_of = [(rows.short[key], [one.get(key) for one in values]) for key in keys]
    axes_of.append((f"validation {rows.metric}", [row.score.value for row in scored if row.score]))
    placed = [_placed(column) for _, column in axes_of]
    with canvas((FIGURE_WIDTH, 0.4 + 0.9 * len(axes_of))) as (figure, axes):
        heights = [-float(index) for index in range(len(axes_of))]
        for order in sorted(range(len(scored)), key=lambda index: _order(scored[index])):
            axes.plot(
                [positions[order] for positions, _ in placed],
                heights,
                **_style(_kind(scored[order]), len(scored)),
            )
        for height, (title, _), (_, ticks) in zip(heights, axes_of, placed, strict=True):
            _draw_axis(axes, height, title, ticks)
        axes.set(xlim=(-0.06, 1.06), ylim=(heights[-1] - 0.45, 0.45))
        axes.set_axis_off()
        return to_svg(figure, "parallel", f"Parameters and validation metric of {len(scored)} experiments")


def _placed(values: Sequence[Any]) -> tuple[list[float], Mapping[float, str]]:
    """Return the positions of values on an axis from 0 to 1, and its labels: numbers by size, anything else evenly spaced."""
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(numbers) < len(values):
        names = sorted({format_value(value) for value in values})
        at = {name: (index + 0.5) / len(names) for index, name in enumerate(names)}
        ticks = {at[name]: name[:12] for name in (names if len(names) <= 4 else (names[0], names[-1]))}
        return [at[format_value(value)] for value in values], ticks
    low, high = float(min(numbers)), float(max(numbers))
    if low == high:
        return [0.5] * len(values), {0.5: format_value(numbers[0])}
    scale = np.log if low > 0 and high / low >= LOGARITHMIC else np.asarray
    ends: NDArray[np.float64] = scale([low, high])
    positions = (scale(np.array(numbers, np.float64)) - ends[0]) / (ends[1] - ends[0])
    return positions.tolist(), {0.0: _tick(min(numbers)), 1.0: _tick(max(numbers))}


def _tick(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 0.01 else format_number(value)


def _draw_axis(axes: "Axes", height: float, title: str, ticks: Mapping[float, str]) -> None:
    axes.plot([0, 1], [height, height], color=MUTED, linewidth=0.8, zorder=0)
    ground = {
        "facecolor": SURFACE,
        "edgecolor": "none",
        "alpha": 0.85,
        "pad": 1.5,
    }  # lines run below the texts
    axes.annotate(
        title, (0.5, height), xytext=(0, 6), textcoords="offset points", ha="center", color=MUTED, bbox=ground
    )
    for position, label in ticks.items():
        side = "left" if position < 0.05 else "right" if position > 0.95 else "center"
        axes.plot([position, position], [height - 0.05, height + 0.05], color=MUTED, linewidth=0.8)
        axes.annotate(
            label,
            (position, height),
            xytext=(0, -6),
            textcoords="offset points",
            ha=side,
            va="top",
            bbox=ground,
        )
