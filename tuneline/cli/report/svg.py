"""Convert matplotlib figures to inline SVG in the style of the page.

Figures are drawn in placeholder colours that become CSS variables of the page, so that one figure fits the light and the dark
mode. Text stays text. Ids get a prefix, because several figures share one document.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID = "#010101", "#020202", "#030303"
FIRST, SECOND, BAD, SURFACE = "#040404", "#050505", "#060606", "#070707"
VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    FIRST: "var(--first)",
    SECOND: "var(--second)",
    BAD: "var(--bad)",
    SURFACE: "var(--surface)",
}
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tuneline",
    "text.parse_math": False,  # a class may be called $5
    "font.family": "DejaVu Sans",  # measured with it, shown in the page's font
    "font.size": 12.5,  # and none smaller: at least 11 px on the page, see SIZE
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.major.pad": 6,
    "ytick.major.pad": 6,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "legend.handlelength": 1.2,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}
WIDTH = 330 / 72
SIZE = (WIDTH, 3.1)
"""Width and height in inches. A figure is 330 units wide, and never narrower than 292 px on a page (screens of 320 px): its text stays
readable, and on a desk the style sheet does not enlarge it beyond that of the page."""
DASHED = (0, (3, 3))


@contextmanager
def canvas(size: tuple[float, float] = SIZE) -> Iterator[tuple["Figure", "Axes"]]:
    """Yield a figure in the style of the page, and its axes.

    Args:
        size: Width and height in inches.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        yield figure, figure.subplots()


def to_svg(figure: "Figure", name: str, label: str) -> str:
    """Return the figure as an SVG element.

    Args:
        figure: A figure drawn inside ``canvas``.
        name: Prefix of every id.
        label: Description for screen readers.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, variable)
    view = re.search(r'viewBox="[^"]*"', svg)
    head = f'<svg {view.group() if view else ""} role="img" aria-label="{escape(label, quote=True)}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    return re.sub(r"^<svg[^>]*>", head, svg, count=1)


def unit_square(axes: "Axes", x: str, y: str) -> None:
    """Scale both axes from 0 to 1, and label them."""
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), xlabel=x, ylabel=y)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "0.25", "0.5", "0.75", "1"])
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "0.25", "0.5", "0.75", "1"])
