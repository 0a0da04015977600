"""How results become a page: the templates, and what they show of metrics.

The page of the report and the page of ``tuneline evaluate`` are made of them.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuneline.evaluation.keys import custom_metrics
from tuneline.evaluation.table import ALL_METRICS
from tuneline.reports.page import template_environment
from tuneline.results.largest_errors import errors_title
from tuneline.words.titles import title_of

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


def render_report(report: Any) -> str:
    """Return the page of a report as HTML."""
    return page_templates().get_template("page.html.j2").render(report=report)


def page_templates() -> "Environment":
    """Return the templates of the page and the card, with what they call."""
    templates = template_environment(TEMPLATES)
    templates.filters |= {
        "signed": signed,
        "title_of": title_of,
        "errors_title": errors_title,
        "digest": _digest,
        "md": escape,
    }
    return templates


def _digest(values: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(dict(values), sort_keys=True).encode()).hexdigest()[:12]


def signed(value: float, digits: int = 3) -> str:
    """Format a difference with its sign, a typographic minus, and no sign if it rounds to zero."""
    text = f"{value:+.{digits}f}"
    # "+0.000" or "-0.000" would claim a direction.
    if float(text) == 0:
        return text[1:]
    return text.replace("-", "\N{MINUS SIGN}")


def escape(value: Any) -> str:
    """Escape text so that Markdown shows it literally, in a paragraph or a table."""
    text = " ".join(str(value).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~$#])", r"\\\1", text)


def metric_names(metrics: Mapping[str, float]) -> list[str]:
    """Return the names of a model's metrics: first of the metric table, then of ``evaluate.metrics``."""
    return [name for name in ALL_METRICS if name in metrics] + custom_metrics(metrics)


def tiles_of(metrics: Mapping[str, float], headline: str | None) -> list[tuple[str, str]]:
    """Return title and value of every metric but the headline."""
    return [(title_of(name), f"{metrics[name]:.3f}") for name in metric_names(metrics) if name != headline]
