"""What can be promised of the answers of the published model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuneline.decisions.evidence import Evidence
from tuneline.onnx.evidence_file import published_evidence
from tuneline.onnx.usage import EXPORT_RECORD, UsageRecord
from tuneline.paths import ONNX
from tuneline.promises import CERTAINTY
from tuneline.promises.abstention import Abstention, promised_abstentions
from tuneline.runtime.errors import DataError, StageError

RISKS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
"""Shares of wrong answers that people ask for."""


@dataclass(frozen=True)
class ModelPromises:
    """What the fp32 model can promise of its answers.

    Attributes:
        evidence: Answers to independent rows.
        promised: The promises of ``RISKS`` that can be made, up to the first that answers every row.
    """

    evidence: Evidence
    promised: Sequence[Abstention]

    @classmethod
    def read(cls, root: Path) -> "ModelPromises | None":
        """Return the promises of the published model; ``None`` if it has no evidence."""
        folder = root / ONNX
        try:
            record = UsageRecord.read(folder / EXPORT_RECORD)
            evidence = published_evidence(folder / record.models["fp32"].file, "fp32")
        except (DataError, StageError, KeyError):
            return None
        if not len(evidence.promising):
            return None

        # up to the first risk at which every row is answered
        promised = []
        for abstention in promised_abstentions(evidence, RISKS, CERTAINTY):
            promised.append(abstention)
            if abstention.answered == abstention.rows:
                break
        return cls(evidence, promised)

    @property
    def rows(self) -> int:
        """Independent rows that promise."""
        return len(self.evidence.promising)
