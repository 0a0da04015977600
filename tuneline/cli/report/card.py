"""Write ``reports/model_card.md`` in the Hugging Face model card format.

The card has metrics and a commit that are known only after training. It is therefore not in the out ``models/classifier``, whose
hash DVC records when training ends; it is uploaded together with that folder.
"""

import re
from pathlib import Path
from typing import Any

from tuneline.cli.report.page import TEMPLATES, Report
from tuneline.files import replace_file
from tuneline.metrics import METRIC_TABLE

CARD = Path("reports/model_card.md")
TASK = "text-classification"


def metadata(report: Report) -> str:
    """Return the metadata block (YAML between lines of three dashes), written by the classes of huggingface_hub."""
    from huggingface_hub import EvalResult, ModelCardData

    params, source = report.params, report.provenance.source
    from_hub = params.get("data.source") == "hub" and bool(params.get("data.path"))
    dataset = str(params["data.path"]) if from_hub else str(params.get("data.path") or params.get("data.source") or "data")
    results = [
        EvalResult(
            task_type=TASK,
            dataset_type=dataset,
            dataset_name=f"{dataset} {params.get('data.name') or ''}".strip(),
            dataset_config=params.get("data.name"),
            dataset_split=report.split,
            dataset_revision=str(source["commit"]) if source.get("commit") else None,
            metric_type=name,
            metric_value=report.metrics[name],
        )
        for name in METRIC_TABLE
        if name in report.metrics
    ]
    checkpoint = report.provenance.base.checkpoint if report.provenance.base else None
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag=TASK,
        tags=["tuneline", *(["onnx"] if report.exported else [])],
        base_model=checkpoint.name if checkpoint and checkpoint.commit else None,
        datasets=[dataset] if from_hub else None,
        metrics=[metric.hub_name for metric in METRIC_TABLE.values() if metric.hub_name and metric.name in report.metrics],
        model_name=name_of(report),
        eval_results=results or None,
    )
    return f"---\n{data.to_yaml()}\n---\n"


def name_of(report: Report) -> str:
    """Return the default name of the model, from data set and label column."""
    params = report.params
    words = [params.get("data.path") or params.get("data.source"), params.get("data.name"), params.get("data.label_column")]
    return re.sub(r"[^\w.-]+", "-", "-".join(str(word) for word in words if word)).strip("-") or "classifier"


def escape(value: Any) -> str:
    """Escape text so that Markdown shows it literally, in a paragraph or a table."""
    text = " ".join(str(value).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~$#])", r"\\\1", text)


def three_digits(value: float | None) -> str:
    """Format a metric with three digits; empty if it is undefined."""
    return "" if value is None else f"{value:.3f}"


def render(report: Report) -> str:
    """Return the card: metadata, then Markdown."""
    import jinja2

    environment = jinja2.Environment(  # noqa: S701 - Markdown: every text goes through ``md``
        loader=jinja2.FileSystemLoader(TEMPLATES), trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"md": escape, "three_digits": three_digits}
    columns = " and ".join(report.params.get("data.text_columns") or ["a text"])
    body = environment.get_template("model_card.md.j2").render(report=report, name=name_of(report), columns=columns)
    return metadata(report) + "\n" + re.sub(r"\n{3,}", "\n\n", body).strip() + "\n"


def write(root: Path, report: Report) -> Path:
    """Write the card and return its path."""
    with replace_file(root / CARD) as partial:
        partial.write_text(render(report), encoding="utf-8")
    return root / CARD
