"""The review of labels: a file of rows whose label may be wrong, in which people write the right one.

``tuneline labels apply`` reads it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuneline.params.data import DataParams
from tuneline.words.spreadsheet import free_names, write_csv

KEY = "key"
SPLIT = "split"
LABEL = "label"
PROPOSED = "proposed"
CONFIDENCE = "confidence"
SIMILAR = "similar"
CORRECT = "correct"
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
    # A text column of the project may have the name of a role, which gets another name then.
    names = free_names(ROLES, data.text_columns)
    header: list[object] = [names[KEY], names[SPLIT]]
    header += data.text_columns
    for role in (LABEL, PROPOSED, CONFIDENCE, SIMILAR, CORRECT):
        header.append(names[role])

    rows = []
    for suspect in suspects:
        confidence: float | str = ""
        if suspect.confidence is not None:
            confidence = round(suspect.confidence, 4)
        row: list[object] = [suspect.key, suspect.split]
        row += suspect.texts
        row += [suspect.label, suspect.proposed, confidence, suspect.similar]
        row.append("")  # the correct label, for people to write
        rows.append(row)
    write_csv(path, data, header, rows)
