"""The evidence beside a published model, if it is the one that was published with it."""

from pathlib import Path

from tuneline.core.runtime.errors import StageError
from tuneline.core.stage.records import file_hash
from tuneline.judge.decisions.evidence import EVIDENCE_FILE, Evidence, read_evidence
from tuneline.onnx.usage import DAMAGED, EXPORT_RECORD, UsageRecord


def published_evidence(file: Path, precision: str) -> Evidence:
    """Read the evidence of the model in an ONNX file.

    Raises:
        StageError: There is none, because the reported split was not ``test``; or it is damaged, or of other
            models.
    """
    record = UsageRecord.read(file.parent / EXPORT_RECORD)
    path = file.parent / EVIDENCE_FILE
    if record.evidence is None:
        raise StageError(
            f"{file.parent} has no {EVIDENCE_FILE}: nobody knows how often this model errs when it is sure.",
            "`dvc repro compare` writes it from the rows of test (evaluate.split: test).",
        )
    if not path.is_file() or file_hash(path) != record.evidence:
        raise StageError(
            f"{path} is missing, damaged, or of other models: {EXPORT_RECORD} has another hash.", DAMAGED
        )
    return read_evidence(path, precision)
