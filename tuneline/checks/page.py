"""What the pages of the project share: the frame with its style sheet, and figures.

A page is one file without scripts or network access.

matplotlib draws the figures, in placeholder colours that become CSS variables of the page: one figure fits
the light and the dark mode. Text stays text, and matplotlib escapes it. Ids get the name of the figure as a
prefix, because several figures share one document.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from tuneline.core.runtime.terminal import visible

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

    The codes are of ``tuneline.core.runtime.terminal.visible``.

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
def canvas() -> Iterator[tuple["Figure", "Axes"]]:
    """Yield a figure in the style of the page, and its axes."""
    # matplotlib takes a second to import, and only stages that draw need it.
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(fname=TEMPLATES / "figure.mplstyle"):
        figure = Figure(figsize=SIZE, layout="constrained")
        yield figure, figure.subplots()


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
