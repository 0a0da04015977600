"""``tuneline show``: the latest result of the pipeline, or its comparison with another commit.

The plain command starts without numeric libraries, because ``make run`` ends with it: the comparison imports
them where it needs them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tuneline.cli.console import Console
from tuneline.core.params.loading import load_params
from tuneline.core.paths import BASE_RECORD, ONNX, PARAMS
from tuneline.core.repository.dvc import Lock, cached_out, read_lock
from tuneline.core.repository.git import (
    CLASSIFIER_PATH,
    COMMIT,
    EVALUATED,
    commit_of,
    lock_at,
    outdated,
    registered,
    registries,
)
from tuneline.core.repository.source_versions import set_back
from tuneline.core.runtime.errors import StageError
from tuneline.core.stage.provenance import BaseSource, StageProvenance, provenance_file
from tuneline.core.stage.records import Metrics
from tuneline.judge.evaluation.keys import INDEPENDENT_ROWS, baseline_key, custom_metrics
from tuneline.judge.evaluation.table import ALL_METRICS
from tuneline.onnx.comparison_records import ComparisonRecord
from tuneline.onnx.records import ExportRecord
from tuneline.onnx.usage import EXPORT_RECORD, UsageRecord, content_version
from tuneline.page.titles import SIMPLE_MODEL_TITLES, positive_class, title_of
from tuneline.page.verdict.facts import RunFacts, is_stale
from tuneline.page.verdict.rules import EARLIER_MODEL, judge_run, next_steps

if TYPE_CHECKING:
    from tuneline.operations.experiments.revisions import RevisionComparison


def _baseline_titles(positive: str | None) -> dict[str, str]:
    """Return the titles of what metrics/evaluate.json has after the metrics of the model, in order."""
    titles = {}
    for model, title in SIMPLE_MODEL_TITLES.items():
        for metric in ALL_METRICS.values():
            key = baseline_key(metric, model)
            if metric.of_predictions and key:
                titles[key] = f"{title_of(metric.name, positive)} of {title}"
    return titles | {"rows": "Rows", INDEPENDENT_ROWS: "Independent rows"}


PATHS = {
    "model": "models/classifier",
    "ONNX": "models/onnx",
    "report": "reports/index.html",
    "model card": "reports/model_card.md",
    "data checks": "reports/checks/index.html",
    "predictions": "reports/predictions.parquet",
}

MODEL_HELP = "A folder of exported models, or the version that an answer names; the project unless given"
Model = Annotated[str | None, typer.Argument(metavar="[MODEL]", help=MODEL_HELP)]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="REV",
        help=(
            "Compare with the model of another commit or experiment on the rows of both, by the present"
            " labels"
        ),
    ),
]


def command(model: Model = None, against: Against = None) -> None:
    """Show the latest result of the pipeline: its metrics, its commit, and where its files are."""
    console = Console(soft_wrap=True)
    if model is not None and against is not None:
        raise StageError("--against is about this project. Leave MODEL out.")
    if model is not None:
        show_model(console, model)
        return
    if not Path(EVALUATED).exists():
        raise StageError(
            f"{EVALUATED} is missing: the pipeline has not run here yet.", "Run `make run` or `dvc repro`."
        )
    if against is not None:
        from tuneline.operations.experiments.revisions import compare_with

        comparison = compare_with(Path(), against)
        console.print(comparison_table(comparison, against))
        console.print(Text(describe_comparison(comparison, against)))
        return
    show_project(console, Path())


def show_project(console: Console, root: Path) -> None:
    """Print metrics, provenance, paths and next steps of the project."""
    lock = read_lock(root)
    evaluated = Metrics.read(root / EVALUATED).values
    run = RunFacts.read(root, lock.params())
    split = str(lock.params().get("evaluate.split", "the reported split"))

    # quality
    for warning in warnings_of_lock(root, lock, compared=bool(run.compared)):
        console.print(Text(f"! {warning}\n"))
    console.print(quality_table(evaluated, run.compared, split, run.positive))
    for finding in judge_run(run):
        console.print(Text(f"{finding}\n"))

    # facts
    _print_facts(console, provenance(root, lock) | _paths(root, run))

    # what to do
    steps = next_steps(run)
    width = max(len(command) for command, _ in steps)
    console.print(Text("\nTry next:"))
    for command, purpose in steps:
        console.print(Text(f"  {command:{width}}  {purpose}"))
    if (root / PARAMS).exists():
        load_params(root / PARAMS)  # last: what the file was when the pipeline ran is in dvc.lock


def _paths(root: Path, run: RunFacts) -> dict[str, str]:
    """Return the paths of the files that are here, and if the ONNX models are of another one."""
    paths = {name: path for name, path in PATHS.items() if (root / path).exists()}
    models = [] if run.compared is None else run.compared.models.values()
    is_earlier = bool(models) and not any(model.published for model in models)
    if (is_earlier or is_stale(root, run.compared)) and "ONNX" in paths:
        paths["ONNX"] += " is of another model: run `dvc repro`"
    return paths


def warnings_of_lock(root: Path, lock: Lock, *, compared: bool) -> list[str]:
    """Return what a person has to know before the metrics.

    The metrics, the data or the ONNX models may not be what they seem to be.
    """
    messages = [outdated(root, lock)]
    for error in set_back(root):
        messages.append(str(error))
    if compared and not (root / ONNX / EXPORT_RECORD).exists():
        messages.append(f"There is no published model in {ONNX}. {EARLIER_MODEL}")
    return [message for message in messages if message]


def quality_table(
    evaluated: Mapping[str, float], compared: ComparisonRecord | None, split: str, positive: str | None
) -> Table:
    """Return one row for each metric of the trained model, then the comparisons of exported models.

    ``positive`` is the class that F1 of two classes is of.
    """
    table = Table(title=f"Quality on {split}", title_justify="left", show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")

    titles = {}
    for name in (*ALL_METRICS, *custom_metrics(evaluated)):
        titles[name] = title_of(name, positive)
    titles |= _baseline_titles(positive)
    for key, title in titles.items():
        if key in evaluated:
            table.add_row(title, _shown(evaluated[key]))

    if compared is None:
        return table
    for precision, model in compared.models.items():
        table.add_section()
        lost = model.metrics[f"{compared.metric}_drop"]
        table.add_row(f"ONNX {precision}: agreement with the trained model", _shown(model.agreement))
        table.add_row(f"ONNX {precision}: {title_of(compared.metric, positive)} lost", _shown(lost))
        table.add_row(f"ONNX {precision}: largest difference of a logit", _shown(model.max_abs_diff))
    return table


def _shown(number: float) -> str:
    """Return a number with six significant digits."""
    without_negative_zero = number + 0.0  # the difference of two metrics may be rounded to -0.0
    return f"{without_negative_zero:,.6g}"


def provenance(root: Path, lock: Lock) -> dict[str, str]:
    """Return the version of the model in ``dvc.lock``, its commit, and its names in the registry."""
    version = lock.out(CLASSIFIER_PATH)
    if version is None:
        return {"version": "not in dvc.lock: the pipeline has not finished yet"}
    facts = {"version": version}

    commit = commit_of(root, version)
    facts["commit"] = str(commit) if commit else f"not committed yet: {COMMIT}"

    trained = StageProvenance.read_if_valid(root / provenance_file("train"))
    if trained and trained.devices:
        facts["trained on"] = str(trained.devices)

    facts |= base_facts(BaseSource.read_if_valid(root / BASE_RECORD))

    tags = registered(root, commit) if commit else []
    if tags:
        facts["registry"] = ", ".join(tags)
    return facts


def base_facts(base: BaseSource | None) -> dict[str, str]:
    """Return the base model: name, commit, licence and hash."""
    if base is None:
        return {}
    if base.checkpoint is None:
        return {"base": "none: trained from scratch"}
    return {"base": base.checkpoint.description}


def show_model(console: Console, name: str) -> None:
    """Print the record of a folder of exported models, which may be far from its project, or of a version."""
    if Path(name).exists():
        path = Path(name) / EXPORT_RECORD
        if not path.exists():
            hint = "For example: tuneline show models/onnx"
            raise StageError(
                f"{name} has no export.json: it is not a folder of models that Tuneline exported.", hint
            )
    else:
        title, path = find_version(Path(), name)
        console.print(Text(title))
    show_record(console, path)


def find_version(root: Path, name: str) -> tuple[str, Path]:
    """Find the model that answers name as their version.

    Args:
        root: The project.
        name: A version or stage of the registry, or the name that a model has which is none: the start of a
            hash.

    Returns:
        What it is, in a line, and its ``export.json``.

    Raises:
        StageError: No model has that name here, or DVC's cache lacks its record.
    """
    tags = registries(root).get(ONNX.name)
    named = None
    if tags is not None:
        versions = {version.name: version for version in tags.versions}
        named = versions.get(name) or tags.in_stage(name)
    if named is not None:
        title = f"{named.name}, commit {named.commit[:12]}"
        record = cached_out(root, lock_at(root, named.commit), f"{ONNX.as_posix()}/{EXPORT_RECORD}")
        if record is None:
            raise StageError(
                f"{title}: DVC's cache does not have its {ONNX}.",
                f"Run `dvc fetch --all-commits {ONNX}`, if a DVC remote has it.",
            )
        return title, record

    path = root / ONNX / EXPORT_RECORD
    if path.exists():
        usage = UsageRecord.read(path)
        for precision, model in usage.models.items():
            if content_version(usage, model) == name:
                return f"the model in {ONNX}, {precision}", path
    raise StageError(
        f"{name}: no folder, no version or stage of the registry, and not the model in {ONNX}.",
        "`git fetch --tags` and `tuneline versions` list what is registered.",
    )


def show_record(console: Console, path: Path) -> None:
    """Print an ``export.json``."""
    record = ExportRecord.read(
        path, f"`git log -- {path}` names the commit whose Tuneline reads it, or export the model again."
    )
    positive = positive_class(record.labels, record.decisions or {})
    for precision, model in record.models.items():
        if model.metrics:
            console.print(quality_table(model.metrics, None, f"{record.split}, {precision}", positive))

    # what it reads and predicts
    texts = ", ".join(record.text_columns)
    labels = ", ".join(record.labels or []) or "a number"
    reads = f"at most {record.max_length} tokens"
    if record.long_text is not None and record.long_text.windows is not None:
        reads = f"at most {record.long_text.windows.max_windows} windows of {record.max_length} tokens"
    facts = {
        "task": f"{record.task}: {texts} -> {labels}",
        "reads": f"{reads}, {record.architecture}",
    }
    for precision, model in record.models.items():
        facts[precision] = f"{model.file}, {model.bytes / 2**20:.1f} MB"

    for name, decision in (record.decisions or {}).items():
        facts[name] = _decision_text(decision)

    # what it was made of
    made = record.provenance
    facts |= base_facts(made.base)
    for split, sha in made.data.sha256.items():
        facts[split] = sha[:12]
    facts["parameters"] = made.parameters_hash[:12]
    facts["code"] = made.stages["train"].code[:12]
    devices = made.stages["train"].devices
    if devices:
        facts["trained on"] = str(devices)
    _print_facts(console, facts)


def _decision_text(decision: Any) -> str:
    """Return how outputs become predictions, such as the thresholds by label, in one line."""
    if isinstance(decision, Mapping):
        return ", ".join(f"{name} {value:.3g}" for name, value in decision.items())
    return str(decision).lower()


def _print_facts(console: Console, facts: Mapping[str, str]) -> None:
    for name, value in facts.items():
        console.print(Text(f"{name:>12}  {value}"))


def comparison_table(comparison: "RevisionComparison", revision: str) -> Table:
    """Return one row for each metric: both models, and the difference with its interval."""
    title = f"On {comparison.rows:,} rows of both, of {comparison.split}"
    table = Table("", "now", revision, "difference", "95 % interval", title=title, title_justify="left")
    for name, difference in comparison.models.differences.items():
        table.add_row(
            title_of(name, comparison.positive),
            f"{difference.first:.4f}",
            f"{difference.second:.4f}",
            f"{difference.value:+.4f}",
            f"{difference.low:+.4f} to {difference.high:+.4f}",
        )
    return table


def describe_comparison(comparison: "RevisionComparison", revision: str) -> str:
    """Return what the table does not say: if the difference is chance, and which rows and labels differ."""
    primary = next(iter(comparison.models.differences.values()))
    if primary.low > 0:
        significance = "clearly better"
    elif primary.high < 0:
        significance = "clearly worse"
    else:
        significance = "no clear difference"
    test = comparison.models.test
    if test:
        rows = (
            f"only this model is right on {test.first_only:,} rows, only that of {revision} on"
            f" {test.second_only:,}"
        )
        significance += f" (McNemar's test: p = {test.p:.2g}; {rows})"

    lines = [significance]
    if comparison.relabelled:
        lines.append(
            f"{comparison.relabelled:,} of these rows had another label at {revision}; both models are scored"
            " by the present ones"
        )
    if any(comparison.left_out):
        here, there = comparison.left_out
        lines.append(
            f"Left out: {here:,} rows that only this model predicted, and {there:,} that only that of"
            f" {revision} did"
        )
    return "\n".join(f"{line[0].upper()}{line[1:]}." for line in lines)
