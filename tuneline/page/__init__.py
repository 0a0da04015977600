"""What the pages of the project share: the frame with its style sheet, and plots. A page is one file without scripts or network access."""

from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


def environment(templates: Path) -> "Environment":
    """Return the templates of a page, which extend ``frame.html.j2``. Everything that is inserted is escaped.

    Args:
        templates: Folder of the page's own templates.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([templates, TEMPLATES]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals["style"] = style()
    return environment


def style() -> Markup:
    """Return the style sheet of all pages: light and dark, for screens of any width and for print."""
    return Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file
