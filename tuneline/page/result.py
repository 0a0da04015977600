"""The latest result of the pipeline for a terminal, and what the record of an exported model says.

The module starts without numeric libraries, because ``make run`` ends with ``tuneline show``.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tuneline.core.paths import BASE_RECORD, ONNX
from tuneline.core.repository.dvc import Lock, cached_out
from tuneline.core.repository.git import (
    CLASSIFIER_PATH,
    COMMIT,
    commit_of,
    lock_at,
    model_tags,
    outdated,
    registered,
)
from tuneline.core.repository.source_versions import set_back
from tuneline.core.runtime.errors import StageError
from tuneline.core.stage.provenance import BaseSource, StageProvenance, provenance_file
from tuneline.judge.evaluation.keys import INDEPENDENT_ROWS, baseline_key, custom_metrics
from tuneline.judge.evaluation.table import ALL_METRICS
from tuneline.onnx.comparison_records import ComparisonRecord
from tuneline.onnx.records import ExportRecord
from tuneline.onnx.usage import EXPORT_RECORD, UsageRecord, content_version
from tuneline.page.titles import SIMPLE_MODEL_TITLES, title_of
from tuneline.page.verdict.facts import RunFacts, is_stale
from tuneline.page.verdict.rules import EARLIER_MODEL

PATHS = {
    "model": "models/classifier",
    "ONNX": "models/onnx",
    "report": "reports/index.html",
    "model card": "reports/model_card.md",
    "data checks": "reports/checks/index.html",
    "predictions": "reports/predictions.parquet",
}


Figures = list[tuple[str, str]]
"""What numbers are about, and the numbers, as people read them."""


def result_metrics(evaluated: Mapping[str, float], positive: str | None) -> Figures:
    """Return the metrics of a model, then the metrics of simple models and the numbers of rows.

    ``positive`` is the class that F1 of two classes is of.
    """
    titles = {}
    for name in (*ALL_METRICS, *custom_metrics(evaluated)):
        titles[name] = title_of(name, positive)
    titles |= _baseline_titles(positive)
    return [(title, _shown(evaluated[key])) for key, title in titles.items() if key in evaluated]


def export_differences(compared: ComparisonRecord, positive: str | None) -> Iterator[Figures]:
    """Yield how each exported model differs from the trained one."""
    for precision, model in compared.models.items():
        lost = model.metrics[f"{compared.metric}_drop"]
        yield [
            (f"ONNX {precision}: agreement with the trained model", _shown(model.agreement)),
            (f"ONNX {precision}: {title_of(compared.metric, positive)} lost", _shown(lost)),
            (f"ONNX {precision}: largest difference of a logit", _shown(model.max_abs_diff)),
        ]


def _baseline_titles(positive: str | None) -> dict[str, str]:
    """Return the titles of what metrics/evaluate.json has after the metrics of the model, in order."""
    titles = {}
    for model, title in SIMPLE_MODEL_TITLES.items():
        for metric in ALL_METRICS.values():
            key = baseline_key(metric, model)
            if metric.of_predictions and key:
                titles[key] = f"{title_of(metric.name, positive)} of {title}"
    return titles | {"rows": "Rows", INDEPENDENT_ROWS: "Independent rows"}


def _shown(number: float) -> str:
    """Return a number with six significant digits."""
    without_negative_zero = number + 0.0  # the difference of two metrics may be rounded to -0.0
    return f"{without_negative_zero:,.6g}"


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


def result_paths(root: Path, run: RunFacts) -> dict[str, str]:
    """Return the paths of the files that are here, and if the ONNX models are of another one."""
    paths = {name: path for name, path in PATHS.items() if (root / path).exists()}
    models = [] if run.compared is None else run.compared.models.values()
    is_earlier = bool(models) and not any(model.published for model in models)
    if (is_earlier or is_stale(root, run.compared)) and "ONNX" in paths:
        paths["ONNX"] += " is of another model: run `dvc repro`"
    return paths


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


def find_model(root: Path, name: str) -> tuple[str | None, Path]:
    """Find an exported model: a folder, which may be far from its project, or what answers name as version.

    Args:
        root: The project.
        name: A folder; a version or stage of the registry; or the name that a model has which is none: the
            start of a hash.

    Returns:
        What it is, in a line, ``None`` for a folder; and its ``export.json``.

    Raises:
        StageError: No model has that name here, or DVC's cache lacks its record.
    """
    if Path(name).exists():
        record = Path(name) / EXPORT_RECORD
        if not record.exists():
            raise StageError(
                f"{name} has no export.json: it is not a folder of models that Tuneline exported.",
                "For example: tuneline show models/onnx",
            )
        return None, record

    tags = model_tags(root)
    versions = {version.name: version for version in tags.versions}
    named = versions.get(name) or tags.in_stage(name)
    if named is not None:
        title = f"{named.name}, commit {named.commit[:12]}"
        cached = cached_out(root, lock_at(root, named.commit), f"{ONNX.as_posix()}/{EXPORT_RECORD}")
        if cached is None:
            raise StageError(
                f"{title}: DVC's cache does not have its {ONNX}.",
                f"Run `dvc fetch --all-commits {ONNX}`, if a DVC remote has it.",
            )
        return title, cached

    path = root / ONNX / EXPORT_RECORD
    if path.exists():
        usage = UsageRecord.read(path)
        for precision, model in usage.models.items():
            if content_version(usage, model) == name:
                return f"the model in {ONNX}, {precision}", path
    raise StageError(
        f"{name}: no folder, no version or stage of the registry, and not the model in {ONNX}.",
        "`git fetch --tags` and `gto show onnx` list what is registered.",
    )


def record_facts(record: ExportRecord) -> dict[str, str]:
    """Return what the models of a record read and predict, and what they were made of."""
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

    # what they were made of
    made = record.provenance
    facts |= base_facts(made.base)
    for split, sha in made.data.sha256.items():
        facts[split] = sha[:12]
    facts["parameters"] = made.parameters_hash[:12]
    facts["code"] = made.stages["train"].code[:12]
    devices = made.stages["train"].devices
    if devices:
        facts["trained on"] = str(devices)
    return facts


def _decision_text(decision: Any) -> str:
    """Return how outputs become predictions, such as the thresholds by label, in one line."""
    if isinstance(decision, Mapping):
        return ", ".join(f"{name} {value:.3g}" for name, value in decision.items())
    return str(decision).lower()
