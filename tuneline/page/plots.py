"""Plots of a page as paths of SVG in a box of 100 by 100, which the page stretches; ``plots.html.j2`` writes their labels as HTML.

Drawn here and not with matplotlib, whose import alone would cost the stage ``validate`` more than half a second of processor time, and
because text that belongs to the page has the same size on a phone as on a desk.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuneline.drift import Distribution

BINS = 36
STEPS = (1.0, 2.0, 5.0)
"""Numbers at which axes have ticks, times powers of ten."""


class Tick(NamedTuple):
    """A label of an axis, and its distance from the left or upper end in percent."""

    at: float
    label: str


def number(value: float) -> str:
    """Format a number of an axis or a table: whole if it is, else with three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


@dataclass(frozen=True)
class Histograms:
    """Histograms of several splits over one axis.

    Attributes:
        shapes: Outline of each histogram as an SVG path, by split; each is as high as its box.
        ticks: Labels of the axis.
    """

    shapes: Mapping[str, str]
    ticks: Sequence[Tick]

    @classmethod
    def of(cls, distributions: Mapping[str, Distribution], *, logarithmic: bool) -> "Histograms":
        """Draw distributions that were binned at percentiles, between their lowest and their highest edge.

        Args:
            distributions: By split; those of no rows are left out.
            logarithmic: Make the axis logarithmic, for lengths.
        """
        filled = {split: one for split, one in distributions.items() if one.edges}
        if not filled:
            return cls({}, [])
        low, high = (end(edge for one in filled.values() for edge in (one.edges[0], one.edges[-1])) for end in (min, max))
        if logarithmic:
            low, high = max(low, 1.0) / 1.1, max(high, 1.0) * 1.1
        else:
            margin = (high - low) / 20 or 1.0
            low, high = low - margin, high + margin
        grid = np.geomspace(low, high, BINS + 1) if logarithmic else np.linspace(low, high, BINS + 1)
        shapes = {split: _outline(_shares(one, grid)) for split, one in filled.items()}
        return cls(shapes, _logarithmic_ticks(low, high) if logarithmic else _linear_ticks(low, high))


def _shares(distribution: Distribution, grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of rows between neighbouring points of a grid; rows within a bin are taken as evenly spread."""
    counts = np.array(distribution.counts, dtype=np.float64)
    below = np.cumsum(counts)[:-1] / max(counts.sum(), 1)
    edges = np.maximum(distribution.edges, grid[0])
    return np.diff(np.interp(grid, edges, below, left=0.0))


def _outline(heights: NDArray[np.float64]) -> str:
    scaled = 100 - 100 * heights / max(heights.max(initial=0.0), 1e-12)
    width = 100 / len(heights)
    steps = "".join(f"V{_short(top)}H{_short(width * (index + 1))}" for index, top in enumerate(scaled))
    return f"M0 100{steps}V100Z"


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _logarithmic_ticks(low: float, high: float) -> list[Tick]:
    values = [step * 10**power for power in range(9) for step in STEPS if low < step * 10**power < high]
    if len(values) < 2:  # within one power of ten
        values = _round_numbers(low, high)
    every = 1 + max(len(values) - 1, 0) // 6
    span = np.log(high / low)
    return [Tick(round(float(100 * np.log(value / low) / span), 1), number(value)) for value in values[::every]]


def _linear_ticks(low: float, high: float) -> list[Tick]:
    return [Tick(round(100 * (value - low) / (high - low), 1), number(value)) for value in _round_numbers(low, high)]


def _round_numbers(low: float, high: float) -> list[float]:
    """Return at most five round numbers between two others."""
    step = _step(high - low, 4)
    return [round(float(step * index), 9) for index in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]


def _step(span: float, ticks: int) -> float:
    """Return the smallest round step that divides a span into at most that many parts."""
    power = 10.0 ** np.floor(np.log10(span / ticks))
    return float(next(step * power for step in (*STEPS, 10.0) if step * power * ticks >= span * (1 - 1e-9)))


class Drawn(NamedTuple):
    """A series of a plot: its name, and the SVG paths of its line and of its dots."""

    name: str
    path: str
    dots: str


@dataclass(frozen=True)
class Lines:
    """Values over versions, the oldest at the left, from 0 upwards.

    Attributes:
        title: What is drawn.
        unit: Unit or explanation, smaller.
        series: Values by name; ``None`` where a version has none.
        x_ticks: Labels of the first and the last version.
        marks: Values at which a dashed line is drawn, by label.
        top: Lowest upper end of the axis.
    """

    title: str
    unit: str
    series: Mapping[str, Sequence[float | None]]
    x_ticks: Sequence[str]
    marks: Mapping[str, float]
    top: float = 0.0

    @cached_property
    def _axis(self) -> tuple[float, int]:
        """The step between the ticks, and the number of steps."""
        values = [value for series in self.series.values() for value in series if value is not None]
        highest = max([*values, *self.marks.values(), self.top, 0.0])
        step = _step(highest, 3) if highest else 1.0
        return step, max(int(np.ceil(highest / step - 1e-9)), 1)

    @property
    def y_ticks(self) -> list[Tick]:
        """Labels of the axis."""
        step, count = self._axis
        return [Tick(round(100 - 100 * index / count, 1), number(round(step * index, 9))) for index in range(count + 1)]

    @property
    def limits(self) -> list[Tick]:
        """Dashed lines."""
        return [Tick(self._height(value), label) for label, value in self.marks.items()]

    @property
    def drawn(self) -> list[Drawn]:
        """The series that have values, as paths."""
        return [Drawn(name, *self._paths(values)) for name, values in self.series.items() if any(value is not None for value in values)]

    @property
    def description(self) -> str:
        """Description for screen readers: the newest value of each series."""
        newest = [f"{name} {number(known[-1])}" for name, values in self.series.items() if (known := [v for v in values if v is not None])]
        return f"{self.title} by version. Newest: {', '.join(newest)}" if newest else f"{self.title} by version: no values"

    def _height(self, value: float) -> float:
        step, count = self._axis
        return round(100 - 100 * value / (step * count), 1)

    def _paths(self, values: Sequence[float | None]) -> tuple[str, str]:
        line, dots, is_open = [], [], False
        for index, value in enumerate(values):
            if value is None:
                is_open = False
                continue
            point = f"{_short(100 * (index + 0.5) / len(values))} {_short(self._height(value))}"
            line.append(f"{'L' if is_open else 'M'}{point}")
            dots.append(f"M{point}h0")
            is_open = True
        return "".join(line), "".join(dots)
