"""The report on the model: the page ``reports/index.html`` and the model card.

The page is one file without scripts or network access. The card has metrics and a commit that are known only
after training. It is therefore not in the out ``models/classifier``, whose hash DVC records when training
ends; it is uploaded together with that folder.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuneline.checks.results import Checks
from tuneline.core.params.params_file import write
from tuneline.core.paths import BASE_RECORD, CHECKS, ONNX, RAW, REPORTS
from tuneline.core.repository.dvc import Lock, read_lock
from tuneline.core.repository.git import (
    CLASSIFIER_PATH,
    COMMIT,
    commit_of,
    git,
    outdated,
    registered,
)
from tuneline.core.runtime.errors import DataError, StageError
from tuneline.core.runtime.terminal import say
from tuneline.core.stage.provenance import BaseSource, RawSource
from tuneline.core.stage.tables import SplitReader
from tuneline.judge.decisions import CERTAINTY
from tuneline.judge.decisions.abstention import Abstention, promised_abstentions
from tuneline.judge.decisions.evidence import Evidence
from tuneline.judge.evaluation.keys import baseline_key, interval_keys, metric_names
from tuneline.judge.evaluation.slices import Slices
from tuneline.model.tasks import Classification, unnamed_task
from tuneline.onnx.evidence_file import published_evidence
from tuneline.onnx.records import ExportRecord
from tuneline.onnx.usage import EXPORT_RECORD, UsageRecord
from tuneline.page.figures import draw_abstention, draw_figures
from tuneline.page.predictions import (
    Confusion,
    about_errors,
    class_metrics,
    largest_errors,
    read_reported,
)
from tuneline.page.rendering import render_card, render_report
from tuneline.page.verdict.facts import RunFacts, is_stale, rivals
from tuneline.page.verdict.rules import judge_run

PAGE = Path("reports/index.html")
CARD = Path("reports/model_card.md")
OUTS = ("data/raw", "data/tokenized", CLASSIFIER_PATH, "models/onnx")
RISKS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
"""Shares of wrong answers that people ask for."""


def read_report(root: Path) -> dict[str, Any]:
    """Read everything that the page and the card show, by name; what is missing is ``None`` or empty."""
    lock = read_lock(root)
    params = lock.params()
    run = RunFacts.read(root, params)
    figures = draw_figures(root, keeps_best=params.get("train.keep", "best") == "best")
    metrics, tiles = _metrics(run)

    # exported models
    export_is_stale = is_stale(root, run.compared)
    promises = None
    if run.compared is not None:
        promises = read_promises(root)
    if promises is not None:
        figures["abstention"] = draw_abstention(*promises)

    report = {
        "title": _title(params),
        "name": _name(params),
        "split": str(params.get("evaluate.split", "test")),
        "task": unnamed_task(params.get("data.task", Classification.kind)),
        "run": run,
        "headline": metrics,
        "tiles": tiles,
        "verdict": judge_run(run),
        "slices": Slices.read_if_valid(root / REPORTS / "slices.json"),
        "checks": Checks.read_if_valid(root / CHECKS / "checks.json"),
        "has_checks_page": (root / CHECKS / "index.html").is_file(),
        "export_is_stale": export_is_stale,
        "export": UsageRecord.read_if_exists(root / ONNX / EXPORT_RECORD),
        "promises": promises,
        "figures": figures,
        "provenance": read_provenance(root, lock, with_export=not export_is_stale),
        "commit_command": COMMIT,
        "outdated": outdated(root, lock),
    }
    return report | _read_predictions(root, params)


def _title(params: Mapping[str, Any]) -> str:
    """Return the text columns and the label column."""
    columns = params.get("data.text_columns")
    if not columns:
        return "Text classifier"
    texts = ", ".join(map(str, columns))
    return f"{texts} → {params.get('data.label_column', 'label')}"


def _name(params: Mapping[str, Any]) -> str:
    """Return the name of the model, from data set and label column."""
    words = [params.get("data.path") or params.get("data.source"), params.get("data.name")]
    words.append(params.get("data.label_column"))
    # A name on the Hub has letters, digits, "_", "." and "-" only.
    name = "-".join(str(word) for word in words if word)
    return re.sub(r"[^\w.-]+", "-", name).strip("-") or "classifier"


def _metrics(run: RunFacts) -> tuple[dict[str, Any] | None, list[tuple[str, str]]]:
    """Return the metric that decides with its interval, and title and value of all others.

    The others begin with the same metric of the simple models.
    """
    metric = run.metric
    if metric is None:
        return None, []
    low_key, high_key = interval_keys(metric)
    headline = {
        "title": run.title_of(metric.name),
        "value": run.evaluated[metric.name],
        "low": run.evaluated.get(low_key),
        "high": run.evaluated.get(high_key),
    }
    tiles = []
    for model, title in rivals(run.is_frozen).items():
        key = str(baseline_key(metric, model))
        if key in run.evaluated:
            tiles.append((f"{headline['title']} of {title}", f"{run.evaluated[key]:.3f}"))
    for name in metric_names(run.evaluated):
        if name != metric.name:
            tiles.append((run.title_of(name), f"{run.evaluated[name]:.3f}"))
    return headline, tiles


def _read_predictions(root: Path, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the report shows of the predictions: classes, confusions and the largest errors."""
    predictions = read_reported(root)
    if predictions is None:
        return {"classes": [], "confusion": None, "errors": [], "about_errors": ""}
    raw = SplitReader.find(root / RAW, str(params.get("evaluate.split", "test")))
    return {
        "classes": class_metrics(predictions),
        "confusion": Confusion.of(predictions),
        "errors": largest_errors(predictions, raw, list(params.get("data.text_columns") or [])),
        "about_errors": about_errors(predictions),
    }


def read_promises(root: Path) -> tuple[Evidence, list[Abstention]] | None:
    """Return what can be promised of the answers of the published fp32 model; ``None`` without evidence.

    There is the evidence, and the promises of ``RISKS`` up to the first that answers every row.
    """
    folder = root / ONNX
    try:
        record = UsageRecord.read(folder / EXPORT_RECORD)
        evidence = published_evidence(folder / record.models["fp32"].file, "fp32")
    except (DataError, StageError, KeyError):
        return None
    if not len(evidence.promising):
        return None

    promised = []
    for abstention in promised_abstentions(evidence, RISKS, CERTAINTY):
        promised.append(abstention)
        if abstention.answered == abstention.rows:
            break
    return evidence, promised


def read_provenance(root: Path, lock: Lock, *, with_export: bool) -> dict[str, Any]:
    """Read where the model comes from: git, ``dvc.lock``, ``source.json`` and ``export.json``.

    Args:
        root: Root of the project.
        lock: Its ``dvc.lock``.
        with_export: False if the exported models are of another model.
    """
    # git: the commit that added this version of the model, and its names in the registry
    version = lock.out(CLASSIFIER_PATH)
    commit = None
    tags: list[str] = []
    if version:
        commit = commit_of(root, version)
    if commit:
        tags = registered(root, commit)

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
    export = None
    if with_export:
        export = ExportRecord.read_if_exists(root / ONNX / EXPORT_RECORD)
    return {
        "commit": commit,
        "head": git(root, "log", "-1", "--format=%h"),
        "changed": len(git(root, "status", "--porcelain", "--untracked-files=no").splitlines()),
        "tags": tags,
        "outs": outs,
        "params": params,
        "code": lock.code(),
        "libraries": export.provenance.libraries if export else {},
        "source": source.attributes if source else {},
        "base": BaseSource.read_if_valid(root / BASE_RECORD),
    }


def write_report(root: Path, report: Mapping[str, Any]) -> None:
    """Write page and card of a report, and print where they are and what the report says about the model."""
    write(root / PAGE, render_report(report))
    write(root / CARD, render_card(report))

    say(f"report: {PAGE}, {CARD}")
    for finding in report["verdict"]:
        say(str(finding))
    if report["outdated"]:
        say(f"! {report['outdated']}")
