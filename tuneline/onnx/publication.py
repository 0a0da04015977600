"""Publication of the exported models that passed, in ``models/onnx``; the hint if the pipeline stops."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuneline.core.paths import CANDIDATES, ONNX
from tuneline.core.runtime.files import replace_directory
from tuneline.core.stage.records import file_hash, write_record
from tuneline.judge.decisions.evidence import EVIDENCE_FILE, write_evidence
from tuneline.onnx.comparison_records import ComparisonRecord
from tuneline.onnx.decisions import ModelDecisions
from tuneline.onnx.exported_model import ExportedModel
from tuneline.onnx.probes import probe_outputs, probe_texts
from tuneline.onnx.usage import EXPORT_RECORD, ModelRecord, UsageRecord


def publish_passed(
    record: UsageRecord,
    report: ComparisonRecord,
    qualities: Mapping[str, Mapping[str, float]],
    decisions: Mapping[str, ModelDecisions],
) -> None:
    """Fill ``models/onnx`` with the models that passed, and with the candidates' files that are not models.

    Args:
        record: The record of the candidates.
        report: Which models passed, and why the others are left out.
        qualities: The metrics of each model, by precision.
        decisions: What each model does with its outputs, by precision.
    """
    published = {}
    left_out = {}
    excluded: set[str] = set()
    evidence = {}
    for precision, model in record.models.items():
        if not report.models[precision].published:
            excluded.update(model.sha256)
            left_out[precision] = report.models[precision].violations
            continue
        decided = decisions[precision]
        update = {
            "metrics": qualities[precision],
            "decisions": decided.record,
            "costs": decided.costs,
        }
        published[precision] = ModelRecord(**{**dict(model), **update})
        if decided.evidence is not None:
            evidence[precision] = decided.evidence

    with replace_directory(ONNX) as folder:
        for path in sorted(CANDIDATES.iterdir()):
            if path.name not in excluded:
                shutil.copyfile(path, folder / path.name)
        additions = {"models": published, "left_out": left_out or None, "split": report.split}
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
        f"Rows are counted from 0 in the reported split. {remedy}"
        f" {ONNX} stays as it was: the model before, if there was one."
    )
