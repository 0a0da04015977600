"""The report on the model: the page ``reports/index.html`` and the model card.

The page is one file without scripts or network access. The card has metrics and a commit that are known only
after training. It is therefore not in the out ``models/classifier``, whose hash DVC records when training
ends; it is uploaded together with that folder.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from markupsafe import Markup

from tuneline.core.sources import BaseSource, RawSource
from tuneline.core.tables import SplitReader
from tuneline.evaluation.records import Behaviour, Slices
from tuneline.onnx.comparison_records import ComparisonRecord
from tuneline.onnx.records import ExportRecord
from tuneline.onnx.usage import EXPORT_RECORD, UsageRecord
from tuneline.params.params_file import write
from tuneline.paths import (
    BASE_RECORD,
    CHECKS,
    ONNX,
    PREDICTIONS,
    RAW,
    REPORTS,
)
from tuneline.reports.checks import Checks
from tuneline.repository.dvc import Lock, read_lock
from tuneline.repository.git import (
    CLASSIFIER_PATH,
    COMMIT,
    Commit,
    commit_of,
    git,
    outdated,
    registered,
    result_key,
)
from tuneline.results.answers import ModelPromises
from tuneline.results.figures import draw_figures
from tuneline.results.largest_errors import curves_note
from tuneline.results.predictions import (
    ClassMetrics,
    Confusion,
    Headline,
    ModelError,
    ReportedPredictions,
    headline,
    largest_errors,
)
from tuneline.results.rendering import metric_names, page_templates, render_report, tiles_of
from tuneline.results.verdict.facts import RunFacts, is_frozen, is_stale
from tuneline.results.verdict.rules import judge_run
from tuneline.results.verdict.words import Statement, evidence, statements
from tuneline.runtime.terminal import say, visible
from tuneline.tasks import Classification, Task, unnamed_task
from tuneline.words.titles import HUB_NAMES

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

PAGE = Path("reports/index.html")
CARD = Path("reports/model_card.md")
OUTS = ("data/raw", "data/tokenized", CLASSIFIER_PATH, "models/onnx")
TASK_TYPE = "text-classification"
"""Name of the task on the Hub, also for a regression."""


@dataclass(frozen=True)
class Provenance:
    """Provenance of the model.

    Attributes:
        commit: The commit that added this version of the model; ``None`` if it is not committed.
        changed: Number of files in the working tree that differ from HEAD.
        tags: Names of the model in the registry.
        outs, code: Hash by path.
        params: Every parameter of the run as JSON text, by dotted key.
        source: ``data/raw/source.json`` without nested values.
    """

    commit: Commit | None
    head: str
    changed: int
    tags: list[str]
    outs: Mapping[str, str]
    params: Mapping[str, str]
    code: Mapping[str, str]
    libraries: Mapping[str, str]
    source: Mapping[str, Any]
    base: BaseSource | None

    @classmethod
    def read(cls, root: Path, lock: Lock, *, with_export: bool) -> Self:
        """Read git, ``dvc.lock``, ``source.json`` and ``export.json``.

        Args:
            root: Root of the project.
            lock: Its ``dvc.lock``.
            with_export: False if the exported models are of another model.
        """
        # git
        version = lock.out(CLASSIFIER_PATH)
        commit = None
        tags: list[str] = []
        if version:
            commit = commit_of(root, version)
        if version and commit:
            tags = registered(root, version, commit)
        changed = git(root, "status", "--porcelain", "--untracked-files=no").splitlines()

        # dvc.lock
        outs = {}
        for path in OUTS:
            md5 = lock.out(path)
            if md5 and (with_export or path != ONNX.as_posix()):
                outs[path] = md5
        params = {}
        for key, value in sorted(lock.params().items()):
            params[key] = json.dumps(value, ensure_ascii=False)

        # records
        source = RawSource.read_if_valid(root / RAW / "source.json")
        export = ExportRecord.read_if_exists(root / ONNX / EXPORT_RECORD) if with_export else None
        return cls(
            commit=commit,
            head=git(root, "log", "-1", "--format=%h"),
            changed=len(changed),
            tags=tags,
            outs=outs,
            params=params,
            code=lock.code(),
            libraries=export.provenance.libraries if export else {},
            source=source.attributes if source else {},
            base=BaseSource.read_if_valid(root / BASE_RECORD),
        )


@dataclass(frozen=True)
class Report:
    """Content of the page and the model card. What is missing is ``None`` or empty.

    Attributes:
        metrics, training: ``metrics/evaluate.json`` and ``metrics/train.json``.
        params: Parameters of the run, by dotted key.
        classes: The metrics of each class on the reported split; empty for numbers.
        confusion: The confusion matrix, where a row has one class.
        curves_note: What the curves are of, in words.
        errors: The largest errors on the reported split.
        key: Key of the result, by which a page of another one is known.
        outdated: What of the project is of another run, in words.
        verdict: What is said of the model, the most important first.
        promises: What can be promised of the answers of the published model; ``None`` if that is not known.
        exported: Comparison of the exported models with the trained one; ``None`` before the first one, or if
            it is of another model.
        export_is_stale: The exported models, and their comparison, are of another model.
        export: The published models.
        about_errors: What the largest errors are, in words.
    """

    metrics: Mapping[str, float]
    training: Mapping[str, float]
    params: Mapping[str, Any]
    headline: Headline | None
    classes: list[ClassMetrics]
    confusion: Confusion | None
    curves_note: str
    errors: list[ModelError]
    slices: Slices | None
    behaviour: Behaviour | None
    checks: Checks | None
    has_checks_page: bool
    exported: ComparisonRecord | None
    export_is_stale: bool
    export: UsageRecord | None
    provenance: Provenance
    promises: ModelPromises | None
    figures: dict[str, Markup]
    key: str
    outdated: str | None
    verdict: Sequence[Statement]
    about_errors: str

    @property
    def title(self) -> str:
        """The text columns and the label column."""
        columns = self.params.get("data.text_columns")
        if not columns:
            return "Text classifier"
        texts = ", ".join(map(str, columns))
        return f"{texts} → {self.params.get('data.label_column', 'label')}"

    @property
    def name(self) -> str:
        """Default name of the model, from data set and label column."""
        words = [
            self.params.get("data.path") or self.params.get("data.source"),
            self.params.get("data.name"),
            self.params.get("data.label_column"),
        ]
        # A name on the Hub has letters, digits, "_", "." and "-" only.
        name = "-".join(str(word) for word in words if word)
        return re.sub(r"[^\w.-]+", "-", name).strip("-") or "classifier"

    @property
    def evidence(self) -> str:
        """The number of rows that the metrics are of, in words; empty if it is not known."""
        run = RunFacts(self.metrics, params=self.params)
        return evidence(run) if run.rows else ""

    @property
    def split(self) -> str:
        """The reported split."""
        return str(self.params.get("evaluate.split", "test"))

    @property
    def task(self) -> Task:
        """The kind of task."""
        return unnamed_task(self.params.get("data.task", Classification.kind))

    @property
    def commit_command(self) -> str:
        """Command that commits the result with all that it was made of."""
        return COMMIT

    @property
    def is_frozen(self) -> bool:
        """True if the model is a linear one on the frozen checkpoint."""
        return is_frozen(self.params, self.training)

    @property
    def tiles(self) -> list[tuple[str, str]]:
        """The other metrics, as ``tiles_of`` returns them."""
        name = None
        if self.headline is not None:
            name = self.headline.name
        return tiles_of(self.metrics, name)


def read_report(root: Path) -> Report:
    """Read everything that the report shows."""
    # metrics, and the predictions unless these are of other metrics
    lock = read_lock(root)
    params = lock.params()
    run = RunFacts.read(root, params)
    predictions = ReportedPredictions.read(root / PREDICTIONS)
    top = headline(run.evaluated, params, predictions, run.is_frozen)
    if top and top.stale:
        predictions = None

    # predictions
    classes: list[ClassMetrics] = []
    confusion = None
    about_curves = ""
    errors: list[ModelError] = []
    errors_note = ""
    raw = SplitReader.find(root / RAW, str(params.get("evaluate.split", "test")))
    if predictions is not None:
        classes = predictions.classes
        confusion = Confusion.of(predictions)
        about_curves = curves_note(predictions.task)
        errors = largest_errors(predictions, raw, list(params.get("data.text_columns") or []))
        errors_note = predictions.about_errors

    # exported models
    export_is_stale = is_stale(root, run.compared)
    promises = None
    if run.compared is not None:
        promises = ModelPromises.read(root)

    return Report(
        metrics=run.evaluated,
        training=run.training,
        params=params,
        headline=top,
        classes=classes,
        confusion=confusion,
        curves_note=about_curves,
        errors=errors,
        slices=Slices.read_if_valid(root / REPORTS / "slices.json"),
        behaviour=Behaviour.read_if_valid(root / REPORTS / "behaviour.json"),
        checks=Checks.read_if_valid(root / CHECKS / "checks.json"),
        has_checks_page=(root / CHECKS / "index.html").is_file(),
        exported=run.compared,
        export_is_stale=export_is_stale,
        export=UsageRecord.read_if_exists(root / ONNX / EXPORT_RECORD),
        provenance=Provenance.read(root, lock, with_export=not export_is_stale),
        figures=draw_figures(root, lock, top, predictions, promises),
        promises=promises,
        key=result_key(root, lock),
        outdated=outdated(root, lock),
        verdict=statements(judge_run(run)),
        about_errors=errors_note,
    )


def write_report(root: Path, report: Report) -> None:
    """Write page and card of a report, and print where they are and what the report says about the model."""
    write(root / PAGE, render_report(report))
    write(root / CARD, render_card(report))

    say(f"report: {PAGE}, {CARD}")
    for one in report.verdict:
        say(str(one))
    if report.outdated:
        say(f"! {report.outdated}")


def render_card(report: Report) -> str:
    """Return the model card: metadata, then Markdown."""
    columns = " and ".join(report.params.get("data.text_columns") or ["a text"])
    # Escaping of HTML would damage Markdown: in its template every text goes through ``md``.
    templates = page_templates().overlay(autoescape=False)
    body = templates.get_template("model_card.md.j2").render(report=report, columns=columns)
    return metadata(report) + "\n" + re.sub(r"\n{3,}", "\n\n", body).strip() + "\n"


def metadata(report: Report) -> str:
    """Return the metadata block (YAML between lines of three dashes) of the model card."""
    from huggingface_hub import ModelCardData

    # data and model
    params = report.params
    dataset = str(params.get("data.path") or params.get("data.source") or "data")
    is_of_hub = params.get("data.source") == "hub" and bool(params.get("data.path"))
    base_model = None  # a local checkpoint has no name on the Hub
    base = report.provenance.base
    if base is not None and base.checkpoint and base.checkpoint.commit:
        base_model = base.checkpoint.name

    # tags and metrics
    tags = ["tuneline"]
    if report.exported:
        tags.append("onnx")
    metrics = []
    for name, hub_name in HUB_NAMES.items():
        if name in report.metrics:
            metrics.append(hub_name)

    data = ModelCardData(
        library_name=None if report.is_frozen else "transformers",  # its pipelines do not know the head
        pipeline_tag=TASK_TYPE,
        tags=tags,
        base_model=base_model,
        datasets=[dataset] if is_of_hub else None,
        metrics=metrics,
        model_name=report.name,
        eval_results=_eval_results(report, dataset) or None,
    )
    return f"---\n{visible(data.to_yaml())}\n---\n"


def _eval_results(report: Report, dataset: str) -> list["EvalResult"]:
    """Return the metrics as the Hub lists them."""
    from huggingface_hub import EvalResult

    config = report.params.get("data.name")
    commit = report.provenance.source.get("commit")
    revision = str(commit) if commit else None
    results = []
    for name in metric_names(report.metrics):
        results.append(
            EvalResult(
                task_type=TASK_TYPE,
                dataset_type=dataset,
                dataset_name=f"{dataset} {config or ''}".strip(),
                dataset_config=config,
                dataset_split=report.split,
                dataset_revision=revision,
                metric_type=name,
                metric_value=report.metrics[name],
            )
        )
    return results
