"""``reports/model_card.md``: the model, for those who find it on a hub, in the Hugging Face model-card format.

It tells what was measured after the model was made, and which commit has it, so it is no part of the out ``models/classifier``:
a README.md in there would change the out after it was sealed, or leave the figures out. It is uploaded beside it.
"""

import re
from pathlib import Path
from typing import Any

from tuneline.cli.report.page import TEMPLATES, Report
from tuneline.files import replace_file
from tuneline.metrics import METRIC_TABLE

CARD = Path("reports/model_card.md")
HUB_NAME = re.compile(r"[a-z0-9][\w.-]*(/[a-z0-9][\w.-]*)?", re.ASCII | re.IGNORECASE)
TASK = "text-classification"


def metadata(report: Report, root: Path) -> str:
    """The metadata block, as YAML between lines of three dashes, by the hub's own classes."""
    from huggingface_hub import EvalResult, ModelCardData

    params, source = report.params, report.provenance.source
    from_hub = params.get("data.source") == "hub" and bool(params.get("data.path"))
    dataset = str(params["data.path"]) if from_hub else str(params.get("data.path") or params.get("data.source") or "data")
    measured = [
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
    checkpoint = params.get("model.checkpoint")
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag=TASK,
        tags=["tuneline", *(["onnx"] if report.exported else [])],
        base_model=checkpoint if is_hub_name(root, checkpoint) else None,
        datasets=[dataset] if from_hub else None,
        metrics=[metric.hub_name for metric in METRIC_TABLE.values() if metric.hub_name and metric.name in report.metrics],
        model_name=name_of(report),
        eval_results=measured or None,
    )
    return f"---\n{data.to_yaml()}\n---\n"


def is_hub_name(root: Path, checkpoint: Any) -> bool:
    """Whether a checkpoint is a name on the hub, not a folder here."""
    return isinstance(checkpoint, str) and bool(HUB_NAME.fullmatch(checkpoint)) and not (root / checkpoint).exists()


def name_of(report: Report) -> str:
    """What the model is called unless its uploader has a better name."""
    params = report.params
    words = [params.get("data.path") or params.get("data.source"), params.get("data.name"), params.get("data.label_column")]
    return re.sub(r"[^\w.-]+", "-", "-".join(str(word) for word in words if word)).strip("-") or "classifier"


def escape(value: Any) -> str:
    """Text that Markdown shows as it is, in a paragraph or a table."""
    text = " ".join(str(value).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~$#])", r"\\\1", text)


def figure(value: float | None) -> str:
    """A figure, or nothing."""
    return "" if value is None else f"{value:.3f}"


def render(report: Report, root: Path) -> str:
    """The card: metadata, then Markdown."""
    import jinja2

    environment = jinja2.Environment(  # noqa: S701 - Markdown: every text goes through ``md``
        loader=jinja2.FileSystemLoader(TEMPLATES), trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"md": escape, "figure": figure}
    columns = " and ".join(report.params.get("data.text_columns") or ["a text"])
    body = environment.get_template("model_card.md.j2").render(report=report, name=name_of(report), columns=columns)
    return metadata(report, root) + "\n" + re.sub(r"\n{3,}", "\n\n", body).strip() + "\n"


def write(root: Path, report: Report) -> Path:
    """Writes the card and returns where."""
    with replace_file(root / CARD) as partial:
        partial.write_text(render(report, root), encoding="utf-8")
    return root / CARD
