"""Publication of the exported models that passed, in ``models/onnx``; the hint if the pipeline stops."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stages.compare.decisions import ModelDecisions
from stages.compare.tolerance import ToleranceJudgement
from tuneline.core.hashes import file_hash
from tuneline.core.records import write_record
from tuneline.decisions.evidence import EVIDENCE_FILE, write_evidence
from tuneline.onnx.exported_model import ExportedModel
from tuneline.onnx.probes import probe_outputs, probe_texts
from tuneline.onnx.usage import EXPORT_RECORD, ModelRecord, UsageRecord
from tuneline.params import CompareParams
from tuneline.paths import CANDIDATES, COMPARISON, ONNX
from tuneline.runtime.atomic_files import replace_directory


def select_published(
    judgements: Mapping[str, ToleranceJudgement], params: CompareParams
) -> tuple[list[str], list[str]]:
    """Return the precisions to publish, and the messages that stop the pipeline.

    With any such message nothing is published.
    """
    published, stopping = [], []
    for precision, judgement in judgements.items():
        if not judgement.violations:
            published.append(precision)
        elif params.stops(precision):
            stopping += [f"{precision}: {message}" for message in judgement.violations]
    if stopping:
        return [], stopping
    return published, []


@dataclass(frozen=True)
class PublishedModel:
    """What is published of a model beside its files: its metrics, and what it does with its outputs."""

    metrics: Mapping[str, float]
    decisions: ModelDecisions


def publish_passed(
    record: UsageRecord,
    passed: Mapping[str, PublishedModel],
    left_out: Mapping[str, Sequence[str]],
    split: str,
) -> None:
    """Fill ``models/onnx`` with the models that passed, and with the candidates' files that are not models.

    Args:
        record: The record of the candidates.
        passed: The models that passed, by precision.
        left_out: Reasons why the other models are left out, by precision.
        split: The reported split.
    """
    published = {}
    excluded: set[str] = set()
    for precision, model in record.models.items():
        if precision not in passed:
            excluded.update(model.sha256)
    evidence = {}
    for precision, one in passed.items():
        update = {
            "metrics": one.metrics,
            "decisions": one.decisions.task.decisions or None,
            "costs": one.decisions.costs,
        }
        published[precision] = ModelRecord(**{**dict(record.models[precision]), **update})
        if one.decisions.evidence is not None:
            evidence[precision] = one.decisions.evidence

    with replace_directory(ONNX) as folder:
        for path in sorted(CANDIDATES.iterdir()):
            if path.name not in excluded:
                shutil.copyfile(path, folder / path.name)
        additions = {"models": published, "left_out": left_out or None, "split": split}
        if evidence:
            write_evidence(folder / EVIDENCE_FILE, evidence)
            additions["evidence"] = file_hash(folder / EVIDENCE_FILE)
        write_record(folder / EXPORT_RECORD, record.model_copy(update=additions))
        write_record(folder / EXPORT_RECORD, _with_probes(UsageRecord.read(folder / EXPORT_RECORD), folder))


def _with_probes(record: UsageRecord, folder: Path) -> UsageRecord:
    """Return the record of published models with the outputs of each for some rows."""
    texts: list[tuple[str, ...]] = []
    models = {}
    for precision, model in record.models.items():
        classifier = ExportedModel.load(folder, precision)
        texts = probe_texts(classifier)
        outputs = probe_outputs(classifier, texts)
        models[precision] = model.model_copy(update={"probe_outputs": outputs})
    return record.model_copy(update={"models": models, "probes": texts})


def way_on(stopping: Sequence[str]) -> str:
    """Return what a user can do after a comparison that stopped the pipeline."""
    if any(message.startswith("fp32: ") for message in stopping):
        remedy = "Try another export.opset; or widen compare.fp32 if this difference is acceptable."
    else:
        remedy = "Set compare.int8.required to false, and the fp32 model is published without it."
    return (
        f"Rows are counted from 0 in the reported split; their text is in {COMPARISON}/flips.json. {remedy}"
        f" {ONNX} is empty until then: `dvc checkout {ONNX}` brings back the model of dvc.lock, `git checkout"
        f" COMMIT dvc.lock && dvc checkout {ONNX}` that of a commit."
    )
