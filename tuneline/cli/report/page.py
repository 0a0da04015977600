"""Collect the report and write ``reports/index.html``: one file without scripts or network access."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tuneline.baseline import BaselineComparison
from tuneline.cli.report.exported_models import ExportedModels, Latencies, read_exported_models
from tuneline.cli.report.figures import draw_figures
from tuneline.cli.report.headline import Headline, headline
from tuneline.cli.report.predictions import Confusion, ModelError, Predictions, compute_confusion, largest_errors
from tuneline.cli.report.summaries import ChecksSummary, Provenance, SlicesSummary, read_provenance
from tuneline.files import replace_file
from tuneline.files.shards import SplitReader
from tuneline.leaks import LeakEffect
from tuneline.metrics import METRIC_TABLE, custom_metrics, title_of
from tuneline.page import environment
from tuneline.paths import METRICS, PREDICTIONS, RAW, REPORTS
from tuneline.records.evaluation import Behaviour
from tuneline.records.metrics import Metrics
from tuneline.repo import PreviousResult, find_previous, read_lock

PAGE = Path("reports/index.html")
TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Report:
    """Content of the page and the model card. What is missing is ``None`` or empty.

    Attributes:
        title: Inputs and output of the model.
        split: The reported split.
        metrics: ``metrics/evaluate.json``.
        training: ``metrics/train.json``.
        params: Parameters of the run, by dotted key.
        headline: The most important metric, and what it is compared with.
        previous: The result of another commit.
        confusion: Confusion matrix and metrics by class of a classification.
        errors: The largest errors on the reported split.
        is_regression: True if the model predicts a number.
        slices: Metric by slice.
        behaviour: Results of the behaviour tests.
        checks: Results of the data checks.
        exported: Comparison of the exported models with the trained one.
        provenance: Commit, data, parameters and code of the model.
        figures: SVG by name.
    """

    title: str
    split: str
    metrics: Mapping[str, float]
    training: Mapping[str, float]
    params: Mapping[str, Any]
    headline: Headline | None
    previous: PreviousResult | None
    confusion: Confusion | None
    errors: list[ModelError]
    is_regression: bool
    slices: SlicesSummary | None
    behaviour: Behaviour | None
    checks: ChecksSummary | None
    exported: ExportedModels | None
    provenance: Provenance
    figures: dict[str, Markup]

    @property
    def tiles(self) -> list[tuple[str, str, float | None]]:
        """The other metrics: title, value, change since the previous result (``None`` if there is none)."""
        shown = [name for name in self.metric_names if not (self.headline and name == self.headline.name)]
        previous = self.previous.metrics if self.previous and self.previous.comparable else {}
        return [(title_of(name), f"{self.metrics[name]:.3f}", _change(self.metrics[name], previous.get(name))) for name in shown]

    @property
    def metric_names(self) -> list[str]:
        """Names of the model's metrics: those of the metric table, then those that ``evaluate.metrics`` adds."""
        return [*(name for name in METRIC_TABLE if name in self.metrics), *custom_metrics(self.metrics)]

    @property
    def against_tfidf(self) -> BaselineComparison | None:
        """Comparison with the TF-IDF baseline."""
        return BaselineComparison.read(self.metrics)

    @property
    def leak_effect(self) -> LeakEffect | None:
        """The primary metric without leaked rows."""
        return LeakEffect.read(self.metrics)

    @property
    def labels(self) -> Sequence[str]:
        """Class names; empty if there are no predictions."""
        return self.confusion.names if self.confusion else []

    def rows_of(self, label: str) -> int:
        """Return the number of rows of a class in the reported split."""
        return sum(row.rows for row in self.confusion.classes if row.name == label) if self.confusion else 0


def _change(current: float, previous: float | None) -> float | None:
    return None if previous is None or abs(current - previous) < 0.0005 else current - previous


def read_report(root: Path, reference: str | None = None, latencies: Latencies | None = None) -> Report:
    """Read everything that the report shows.

    Args:
        root: Root of the project.
        reference: The commit to compare with; ``None`` for the newest with other metrics.
        latencies: Latency of the exported models.
    """
    lock = read_lock(root)
    params = lock.params()
    metrics = Metrics.read_values(root / METRICS / "evaluate.json")
    split = str(params.get("evaluate.split", "test"))
    predictions = Predictions.read(root / PREDICTIONS)
    previous = find_previous(root, metrics, reference) if metrics else None
    top = headline(metrics, params, predictions, previous)
    if top and top.stale:
        predictions = None
    raw, columns = SplitReader.find(root / RAW, split), list(params.get("data.text_columns") or [])
    return Report(
        title=title(params),
        split=split,
        metrics=metrics,
        training=Metrics.read_values(root / METRICS / "train.json"),
        params=params,
        headline=top,
        previous=previous,
        confusion=compute_confusion(predictions) if predictions is not None and predictions.names else None,
        errors=largest_errors(predictions, raw, columns) if predictions is not None else [],
        is_regression=params.get("data.task") == "regression",
        slices=SlicesSummary.read(root),
        behaviour=Behaviour.read_if_valid(root / REPORTS / "behaviour.json"),
        checks=ChecksSummary.read(root),
        exported=read_exported_models(root, latencies),
        provenance=read_provenance(root, lock),
        figures=draw_figures(root, lock, top, predictions),
    )


def title(params: Mapping[str, Any]) -> str:
    """Return the text columns and the label column as the title of the page."""
    columns = params.get("data.text_columns")
    if not columns:
        return "Text classifier"
    return f"{', '.join(map(str, columns))} → {params.get('data.label_column', 'label')}"


def render(report: Report) -> str:
    """Return the page as HTML."""
    templates = environment(TEMPLATES)
    templates.filters |= {"signed": signed, "title_of": title_of}
    return templates.get_template("page.html.j2").render(report=report)


def signed(value: float, digits: int = 3) -> str:
    """Format a difference with its sign, a typographic minus, and no sign if it rounds to zero."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "\N{MINUS SIGN}")


def write(root: Path, report: Report) -> Path:
    """Write the page and return its path."""
    with replace_file(root / PAGE) as partial:
        partial.write_text(render(report), encoding="utf-8")
    return root / PAGE
