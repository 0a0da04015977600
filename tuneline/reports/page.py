"""What the pages of the project share: the frame with its style sheet, and figures.

A page is one file without scripts or network access.

matplotlib draws the figures, in placeholder colours that become CSS variables of the page: one figure fits
the light and the dark mode. Text stays text, and matplotlib escapes it. Ids get the name of the figure as a
prefix, because several figures share one document.
"""

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from tuneline.analysis.drift import Distribution
from tuneline.runtime.terminal import visible

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TEMPLATES = Path(__file__).parent / "templates"


def template_environment(templates: Path) -> "Environment":
    """Return the templates of a page, in a folder of its own, which extend ``frame.html.j2``.

    Everything that is inserted is escaped, with control characters as codes.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([templates, TEMPLATES]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=visible_value,
    )
    environment.globals["style"] = style()
    return environment


def visible_value(value: Any) -> str:
    """Return the text that a page shows of a value, with control characters as codes.

    The codes are of ``tuneline.runtime.terminal.visible``.

    A page does not obey escape sequences, but ``cat`` does, and a browser reorders what follows U+202E. A
    carriage return before a line end does nothing, and many texts have it.
    """
    text = visible(str(value).replace("\r\n", "\n"))
    if isinstance(value, Markup):
        return Markup(text)  # noqa: S704 - codes have no character that HTML reads
    return text


def style() -> Markup:
    """Return the style sheet of all pages: light and dark, for screens of any width and for print."""
    return Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file


def format_number(value: float) -> str:
    """Format a number of an axis or a table: whole if it is, else with three significant digits."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


# Placeholder colours: no figure has them for another reason, and ``to_svg`` replaces them by variables.
INK = "#010101"
MUTED = "#020202"
GRID = "#030303"
FIRST = "#040404"
SECOND = "#050505"
BAD = "#070707"
SURFACE = "#080808"
VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    FIRST: "var(--first)",
    SECOND: "var(--second)",
    BAD: "var(--bad)",
    SURFACE: "var(--surface)",
}
FIGURE_WIDTH = 330 / 72
SIZE = (FIGURE_WIDTH, 3.1)
"""Width and height in inches.

A figure is 330 units wide, and never narrower than 292 px on a page (screens of 320 px): its text stays
readable, and on a desk the style sheet does not enlarge it beyond the text of the page."""
DASHED = (0, (3, 3))


@contextmanager
def canvas(size: tuple[float, float] = SIZE, rows: int = 1) -> Iterator[tuple["Figure", "Axes"]]:
    """Yield a figure in the style of the page, and the first of its axes.

    Args:
        size: Width and height in inches.
        rows: Number of axes, one below the other with one horizontal scale.
    """
    # matplotlib takes a second to import, and only stages that draw need it.
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(fname=TEMPLATES / "figure.mplstyle"):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(rows, sharex=True, squeeze=False)
        yield figure, axes[0, 0]


def to_svg(figure: "Figure", name: str, label: str) -> Markup:
    """Return a figure drawn inside ``canvas`` as an SVG element.

    The name is the prefix of every id, the label is for screen readers.
    """
    buffer = io.StringIO()
    metadata = {
        "Date": None,
        "Creator": None,
        "Format": None,
        "Type": None,
    }  # the same figure, the same bytes
    figure.savefig(buffer, format="svg", metadata=metadata)
    svg = buffer.getvalue()

    # element without prologue and comments, with ids and colours of the page
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, variable)

    # start tag without width and height, which the style sheet sets
    view = re.search(r'viewBox="[^"]*"', svg)
    view_box = view.group() if view else ""
    start_tag = (
        f'<svg {view_box} role="img" aria-label="{escape(label, quote=True)}"'
        ' xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    svg = re.sub(r"^<svg[^>]*>", lambda _: start_tag, svg, count=1)
    return Markup(svg)  # noqa: S704 - matplotlib has escaped the text in it


BINS = 36


def draw_histograms(
    name: str, title: str, distributions: Mapping[str, Distribution], *, logarithmic: bool
) -> Markup | None:
    """Draw the histogram of each split above a common axis, each as high as its box.

    Distributions are binned at percentiles, and drawn between the lowest and the highest edge. The title is
    for screen readers. If no split has rows, there is no figure: ``None``.
    """
    # A split without rows, or without such a column, has no edges.
    filled = {split: distribution for split, distribution in distributions.items() if distribution.edges}
    if not filled:
        return None
    grid = _histogram_grid(filled, logarithmic)

    labels = []
    with canvas((FIGURE_WIDTH, 0.3 + 0.95 * len(filled)), rows=len(filled)) as (figure, _):
        for axes, (split, distribution) in zip(figure.axes, filled.items(), strict=True):
            low, median, high = (format_number(distribution.quantile(level)) for level in (0.05, 0.5, 0.95))
            words = f"median {median}, 90 % in {low} to {high}"
            labels.append(f"{title}, {split}: {words}")

            axes.stairs(_shares(distribution, grid), grid, fill=True, color=FIRST, alpha=0.75)
            axes.set_title(f"{split}: {words}", loc="left")
            _scale_histogram(axes, grid, logarithmic)
        return to_svg(figure, name, "; ".join(labels))


def _histogram_grid(distributions: Mapping[str, Distribution], logarithmic: bool) -> NDArray[np.float64]:
    """Return the ends of the bars, from below the lowest edge to above the highest, shape ``(BINS + 1,)``."""
    low = min(distribution.edges[0] for distribution in distributions.values())
    high = max(distribution.edges[-1] for distribution in distributions.values())
    # All edges can be one value: the margin keeps the grid wider than 0.
    if logarithmic:
        return np.geomspace(max(low, 1.0) / 1.1, max(high, 1.0) * 1.1, BINS + 1)
    margin = (high - low) / 20 or 1.0
    return np.linspace(low - margin, high + margin, BINS + 1)


def _scale_histogram(axes: "Axes", grid: NDArray[np.float64], logarithmic: bool) -> None:
    """Scale the horizontal axis over the grid, with a few ticks; the height has none."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    low = grid[0]
    high = grid[-1]
    axes.set_xlim(low, high)
    if logarithmic:
        axes.set_xscale("log")
    # Ticks of decades, or within them; with less than a decade, a logarithmic axis would have no tick.
    if logarithmic and high / low >= 1000:
        axes.xaxis.set_major_locator(LogLocator(subs=(1,)))
    elif logarithmic and high / low >= 10:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: format_number(value))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


def _shares(distribution: Distribution, grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of rows between neighbouring points of a grid, as if bins were evenly filled."""
    counts = np.array(distribution.counts, dtype=np.float64)
    below = np.cumsum(counts)[:-1] / max(counts.sum(), 1)
    edges = np.maximum(distribution.edges, grid[0])
    return np.diff(np.interp(grid, edges, below, left=0.0))
