"""The page of the experiments: all learning curves, the parameters as parallel coordinates, and the table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from tuneline.experiments.rows import ExperimentRow, ExperimentRows, format_value
from tuneline.params.params_file import flat_values
from tuneline.paths import PLOTS
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
from tuneline.repository.dvc import cached_folder
from tuneline.results.figures import Columns, read_columns
from tuneline.words.titles import title_of

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
    metric = "metric"
    if rows.metric:
        metric = title_of(rows.metric)
    templates = template_environment(TEMPLATES)
    return templates.get_template("experiments.html.j2").render(
        rows=rows,
        metric=metric,
        best=next((row for row in rows.rows if row.is_best), None),
        curves=draw_curves(root, rows),
        parallel=draw_parallel(rows),
        tested=any(row.test is not None for row in rows.rows),
    )


def draw_curves(root: Path, rows: ExperimentRows) -> list[tuple[str, Markup]]:
    """Draw the validation metric and the training loss of every experiment over steps.

    An experiment has curves if DVC's cache has its plots.
    """
    folders = []
    for row in rows.rows:
        folder = cached_folder(root, row.experiment.lock, (PLOTS / "training").as_posix())
        folders.append(folder or {})

    metric = rows.metric or "loss"
    figures = (
        ("curve0", "validation.tsv", metric, f"validation {metric}"),
        ("curve1", "loss.tsv", "loss", "training loss"),
    )
    drawn = []
    for name, file, column, title in figures:
        curves = []
        for row, folder in zip(rows.rows, folders, strict=True):
            path = folder.get(file)
            if not path:
                continue
            columns = read_columns(path)
            if columns and column in columns:
                curves.append((row, columns))
        if curves:
            drawn.append((title.capitalize(), _draw_lines(name, title, column, curves)))
    return drawn


def _draw_lines(
    name: str, title: str, column: str, curves: Sequence[tuple[ExperimentRow, Columns]]
) -> Markup:
    """Draw a column of each experiment over its steps."""
    with canvas() as (figure, axes):
        for row, columns in sorted(curves, key=lambda curve: _order(curve[0])):
            # More points than pixels make the file large, and the curve no better
            every = math.ceil(len(columns["step"]) / MAX_POINTS)
            style = _style(_kind(row), len(curves))
            axes.plot(columns["step"][::every], columns[column][::every], **style)
        axes.set(xlabel="step", ylabel=title)
        _add_legend(axes, [row for row, _ in curves])
        return to_svg(figure, name, f"{title.capitalize()} over steps, {len(curves)} experiments")


POINT_KINDS = ("others", "base", "best")
"""In the order in which they are drawn: the best one last, above all others."""


def _kind(row: ExperimentRow) -> str:
    if row.is_best:
        return "best"
    if row.differs:
        return "others"
    return "base"


def _order(row: ExperimentRow) -> int:
    return POINT_KINDS.index(_kind(row))


def _style(kind: str, number_of_lines: int = 1) -> dict[str, Any]:
    if kind == "best":
        return {"color": FIRST, "linewidth": 2.2}
    if kind == "base":
        return {"color": SECOND, "linewidth": 1.6, "linestyle": (0, (7, 3))}
    # The more lines, the paler: they run over each other
    opacity = max(0.25, min(0.7, 8 / number_of_lines))
    return {"color": MUTED, "linewidth": 1.0, "alpha": opacity}


def _add_legend(axes: "Axes", rows: Sequence[ExperimentRow]) -> None:
    kinds = sorted({_kind(row) for row in rows}, key=POINT_KINDS.index, reverse=True)
    handles = []
    for kind in kinds:
        (line,) = axes.plot([], [], **_style(kind))  # an empty line of each style, only for the legend
        handles.append(line)
    axes.legend(handles, kinds, loc="best")


def draw_parallel(rows: ExperimentRows) -> Markup | None:
    """Draw one axis for each parameter that differs, below them the metric, and one line for each experiment.

    ``None`` if fewer than two experiments have a score, or nothing differs. The axes are horizontal: any
    number fits a narrow screen.
    """
    # experiments with a score of the same metric, and the parameters in which they differ
    scored = []
    scores = []
    for row in rows.rows:
        if row.score and row.score.metric == rows.metric:
            scored.append(row)
            scores.append(row.score.value)
    params = [flat_values(row.experiment.params) for row in scored]
    keys = _differing_keys(params, rows.short)
    if len(scored) < 2 or not keys:
        return None

    # axes: title, position of each experiment, and ticks
    titles = [rows.short[key] for key in keys]
    columns: list[Sequence[Any]] = []
    for key in keys:
        columns.append([values.get(key) for values in params])
    titles.append(f"validation {rows.metric}")
    columns.append(scores)
    positions = []
    ticks = []
    for column in columns:
        positions_of_column, ticks_of_column = _placed(column)
        positions.append(positions_of_column)
        ticks.append(ticks_of_column)

    with canvas((FIGURE_WIDTH, 0.4 + 0.9 * len(titles))) as (figure, axes):
        heights = [-float(index) for index in range(len(titles))]
        # The best one is drawn last, above all others
        for index in sorted(range(len(scored)), key=lambda index: _order(scored[index])):
            line = [positions_of_axis[index] for positions_of_axis in positions]
            axes.plot(line, heights, **_style(_kind(scored[index]), len(scored)))
        for height, title, ticks_of_axis in zip(heights, titles, ticks, strict=True):
            _draw_axis(axes, height, title, ticks_of_axis)
        axes.set(xlim=(-0.06, 1.06), ylim=(heights[-1] - 0.45, 0.45))
        axes.set_axis_off()
        return to_svg(figure, "parallel", f"Parameters and validation metric of {len(scored)} experiments")


def _differing_keys(params: Sequence[Mapping[str, Any]], keys: Iterable[str]) -> list[str]:
    """Return the keys whose values are not the same in all experiments, ``MAX_AXES`` at most."""
    differing = []
    for key in keys:
        if any(values.get(key) != params[0].get(key) for values in params):
            differing.append(key)
    return differing[:MAX_AXES]


def _placed(values: Sequence[Any]) -> tuple[list[float], Mapping[float, str]]:
    """Return the positions of values on an axis from 0 to 1, and its labels by position.

    Numbers are placed by size, anything else evenly.
    """
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(numbers) < len(values):
        names = sorted({format_value(value) for value in values})
        position_of = {name: (index + 0.5) / len(names) for index, name in enumerate(names)}
        if len(names) > 4:  # more labels would overlap
            names = [names[0], names[-1]]
        ticks = {position_of[name]: name[:12] for name in names}
        return [position_of[format_value(value)] for value in values], ticks

    low = float(min(numbers))
    high = float(max(numbers))
    if low == high:
        return [0.5] * len(values), {0.5: format_value(numbers[0])}

    is_logarithmic = low > 0 and high / low >= LOGARITHMIC
    scale = np.log if is_logarithmic else np.asarray
    ends: NDArray[np.float64] = scale([low, high])
    positions = (scale(np.array(numbers, np.float64)) - ends[0]) / (ends[1] - ends[0])
    return positions.tolist(), {0.0: _tick(min(numbers)), 1.0: _tick(max(numbers))}


def _tick(value: float) -> str:
    if abs(value) < 0.01:  # with fixed decimals, a learning rate would be 0
        return f"{value:.3g}"
    return format_number(value)


def _draw_axis(axes: "Axes", height: float, title: str, ticks: Mapping[float, str]) -> None:
    axes.plot([0, 1], [height, height], color=MUTED, linewidth=0.8, zorder=0)
    # Lines run below the texts
    ground = {
        "facecolor": SURFACE,
        "edgecolor": "none",
        "alpha": 0.85,
        "pad": 1.5,
    }
    axes.annotate(
        title, (0.5, height), xytext=(0, 6), textcoords="offset points", ha="center", color=MUTED, bbox=ground
    )
    for position, label in ticks.items():
        # Labels at the ends of the axis stay inside of the figure
        side = "center"
        if position < 0.05:
            side = "left"
        elif position > 0.95:
            side = "right"
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
