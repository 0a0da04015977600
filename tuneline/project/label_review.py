"""The review of labels: rows whose label may be wrong, as a file in which people write the right one (``tuneline labels apply``)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuneline.params.data import DataParams
from tuneline.project.spreadsheet import free_names, write_csv

KEY, SPLIT, LABEL, PROPOSED, CONFIDENCE, SIMILAR, CORRECT = (
    "key",
    "split",
    "label",
    "proposed",
    "confidence",
    "similar",
    "correct",
)
ROLES = (KEY, SPLIT, LABEL, PROPOSED, CONFIDENCE, SIMILAR, CORRECT)


@dataclass(frozen=True, slots=True)
class Suspect:
    """A row whose label may be wrong.

    Attributes:
        key: Hash of its texts, which finds the row again: ``tuneline.analysis.corrections.row_keys``.
        split: Its split; empty if it is not known.
        proposed: Class name or number that models predict that were trained without the row, or that another
            source gives.
        confidence: Probability that the models give the proposed class; ``None`` without models. For a
            number: share of all rows that are nearer to their prediction.
        similar: Near-identical rows, each with split, row number in ``data/raw`` and label; or the place in
            the other source.
    """

    key: str
    split: str
    texts: tuple[str, ...]
    label: str
    proposed: str
    confidence: float | None
    similar: str


def write_review(path: Path, data: DataParams, suspects: Sequence[Suspect]) -> None:
    """Write the review, with an empty column ``correct``."""
    names = free_names(ROLES, data.text_columns)
    header = [
        names[KEY],
        names[SPLIT],
        *data.text_columns,
        *(names[role] for role in (LABEL, PROPOSED, CONFIDENCE, SIMILAR, CORRECT)),
    ]
    rows = []
    for suspect in suspects:
        confidence = "" if suspect.confidence is None else round(suspect.confidence, 4)
        rows.append(
            (
                suspect.key,
                suspect.split,
                *suspect.texts,
                suspect.label,
                suspect.proposed,
                confidence,
                suspect.similar,
                "",
            )
        )
    write_csv(path, data, header, rows)
