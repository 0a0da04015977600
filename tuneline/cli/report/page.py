"""Puts the report together and writes ``reports/index.html``: one page, no script, nothing fetched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tuneline.cli.report.answers import Confusion, Mistake, confusion, mistakes
from tuneline.cli.report.checks import Checks, found_checks
from tuneline.cli.report.drawn import drawn
from tuneline.cli.report.exported import Exported, exported
from tuneline.cli.report.headline import Headline, headline
from tuneline.cli.report.latency import Latencies
from tuneline.cli.report.provenance import Provenance, provenance
from tuneline.cli.report.reading import Predictions, numbers, read_json
from tuneline.cli.report.slices import BehaviourTest, Slices, found_behaviour, found_slices
from tuneline.files import replace_file
from tuneline.metrics import METRIC_TABLE
from tuneline.paths import COMPARISON, METRICS, ONNX, PREDICTIONS, RAW, split_file
from tuneline.repo.earlier import Earlier, earlier
from tuneline.repo.history import read_lock

PAGE = Path("reports/index.html")
TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Report:
    """Everything that the page says. What is not there is ``None`` or empty.

    Attributes:
        title: What the model does.
        split: The reported split.
        metrics: ``metrics/evaluate.json``.
        training: ``metrics/train.json``.
        params: What the line ran with, by dotted key.
        is_regression: Whether it predicts a number.
        figures: SVG by name.
    """

    title: str
    split: str
    metrics: dict[str, float]
    training: dict[str, float]
    params: Mapping[str, Any]
    headline: Headline | None
    earlier: Earlier | None
    confusion: Confusion | None
    mistakes: list[Mistake]
    is_regression: bool
    slices: Slices | None
    behaviour: list[BehaviourTest]
    checks: Checks | None
    exported: Exported | None
    provenance: Provenance
    figures: dict[str, Markup]

    @property
    def tiles(self) -> list[tuple[str, str, float | None]]:
        """The metrics beside the headline: title, value, change from the earlier result."""
        shown = [name for name in METRIC_TABLE if name in self.metrics and not (self.headline and name == self.headline.name)]
        before = self.earlier.metrics if self.earlier and self.earlier.comparable else {}
        return [(METRIC_TABLE[name].title, f"{self.metrics[name]:.3f}", _change(self.metrics[name], before.get(name))) for name in shown]

    @property
    def labels(self) -> Sequence[str]:
        """Class names; empty where they are not known here."""
        return self.confusion.names if self.confusion else []

    def rows_of(self, label: str) -> int:
        """Rows of a class on the reported split."""
        return sum(one.rows for one in self.confusion.classes if one.name == label) if self.confusion else 0


def _change(now: float, before: float | None) -> float | None:
    return None if before is None or abs(now - before) < 0.0005 else now - before


def gather(root: Path, reference: str | None = None, latencies: Latencies | None = None) -> Report:
    """Reads everything there is.

    Args:
        root: The project.
        reference: The commit to compare with; ``None`` for the newest with other metrics.
        latencies: What was measured.
    """
    lock = read_lock(root)
    params = lock.params()
    metrics = numbers(read_json(root / METRICS / "evaluate.json"))
    split = str(params.get("evaluate.split", "test"))
    predictions = Predictions.read(root / PREDICTIONS)
    before = earlier(root, metrics, reference) if metrics else None
    top = headline(metrics, params, predictions, before)
    usable = predictions if predictions is not None and not (top and top.stale) else None
    raw, columns = split_file(root / RAW, split), list(params.get("data.text_columns") or [])
    return Report(
        title=title(params),
        split=split,
        metrics=metrics,
        training=numbers(read_json(root / METRICS / "train.json")),
        params=params,
        headline=top,
        earlier=before,
        confusion=confusion(usable) if usable is not None and usable.names else None,
        mistakes=mistakes(usable, raw, columns) if usable is not None else [],
        is_regression=params.get("data.task") == "regression",
        slices=found_slices(root),
        behaviour=found_behaviour(root),
        checks=found_checks(root),
        exported=found_exports(root, latencies),
        provenance=provenance(root, lock),
        figures=drawn(root, lock, top, usable),
    )


def title(params: Mapping[str, Any]) -> str:
    """What goes in, and what comes out."""
    columns = params.get("data.text_columns")
    if not columns:
        return "Text classifier"
    return f"{', '.join(map(str, columns))} → {params.get('data.label_column', 'label')}"


def found_exports(root: Path, latencies: Latencies | None) -> Exported | None:
    """The exported models, if they were compared."""
    comparison = read_json(root / COMPARISON / "comparison.json")
    if comparison is None:
        return None
    return exported(comparison, read_json(root / COMPARISON / "flips.json"), read_json(root / ONNX / "export.json"), latencies)


def render(report: Report) -> str:
    """The page."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"signed": signed, "title_of": lambda name: METRIC_TABLE[name].title if name in METRIC_TABLE else name}
    style = Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file
    return environment.get_template("page.html.j2").render(report=report, style=style)


def signed(value: float, digits: int = 3) -> str:
    """A difference, with a real minus sign; no sign for what is rounded to nothing."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "\N{MINUS SIGN}")


def write(root: Path, report: Report) -> Path:
    """Writes the page and returns where."""
    with replace_file(root / PAGE) as partial:
        partial.write_text(render(report), encoding="utf-8")
    return root / PAGE
