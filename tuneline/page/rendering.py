"""How results become a page and a model card: the templates, and the metadata of the card."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuneline.checks.page import template_environment
from tuneline.core.runtime.terminal import visible
from tuneline.core.stage.records import shown
from tuneline.page.titles import title_of

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


def render_report(report: Mapping[str, Any]) -> str:
    """Return the page of a report as HTML."""
    return _templates().get_template("page.html.j2").render(report=report)


def render_card(report: Mapping[str, Any]) -> str:
    """Return the model card: metadata, then Markdown."""
    columns = " and ".join(report["run"].params.get("data.text_columns") or ["a text"])
    # Escaping of HTML would damage Markdown: in its template every text goes through ``md``.
    templates = _templates().overlay(autoescape=False)
    body = templates.get_template("model_card.md.j2").render(report=report, columns=columns)
    return _metadata(report) + "\n" + re.sub(r"\n{3,}", "\n\n", body).strip() + "\n"


def _templates() -> "Environment":
    """Return the templates of the page and the card, with what they call."""
    templates = template_environment(TEMPLATES)
    templates.filters |= {
        "signed": signed,
        "title_of": title_of,
        "digest": _digest,
        "md": escape,
        "shown": shown,
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


def _metadata(report: Mapping[str, Any]) -> str:
    """Return the metadata block (YAML between lines of three dashes) of the model card."""
    from huggingface_hub import ModelCardData

    run = report["run"]
    datasets = None
    if run.params.get("data.source") == "hub" and run.params.get("data.path"):
        datasets = [str(run.params["data.path"])]
    base_model = None  # a local checkpoint has no name on the Hub
    base = report["provenance"]["base"]
    if base is not None and base.checkpoint and base.checkpoint.commit:
        base_model = base.checkpoint.name
    tags = ["tuneline"]
    if run.compared:
        tags.append("onnx")
    library = "transformers"
    record = report["export"]
    if run.is_frozen or (record is not None and record.head):  # its pipelines do not know the head
        library = "tuneline"

    data = ModelCardData(
        library_name=library,
        pipeline_tag="text-classification",  # the Hub's name of the task, also of a regression
        tags=tags,
        base_model=base_model,
        datasets=datasets,
    )
    return f"---\n{visible(data.to_yaml())}\n---\n"
