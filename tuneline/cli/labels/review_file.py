"""The review as a CSV file: people fill in its column ``correct``, and ``tuneline labels apply`` reads it."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuneline.cli.labels.queue_file import ENCODING, delimiter, harmless
from tuneline.files import replace_file
from tuneline.params import DataParams

KEY, SPLIT, LABEL, PROPOSED, CONFIDENCE, SIMILAR, CORRECT = "key", "split", "label", "proposed", "confidence", "similar", "correct"
ROLES = (KEY, SPLIT, LABEL, PROPOSED, CONFIDENCE, SIMILAR, CORRECT)


@dataclass(frozen=True, slots=True)
class Suspect:
    """A row whose label may be wrong.

    Attributes:
        key: Hash of its texts, which finds the row again: ``tuneline.corrections.row_keys``.
        split: Its split.
        texts: One or two.
        label: Class name or number that it has.
        proposed: Class name or number that models predict that were trained without the row.
        confidence: Probability that they give the proposed class. For a number: share of all rows that are nearer to their prediction.
        similar: Near-identical rows, each with split, row number in ``data/raw`` and label.
    """

    key: str
    split: str
    texts: tuple[str, ...]
    label: str
    proposed: str
    confidence: float
    similar: str


def column_names(text_columns: Sequence[str]) -> dict[str, str]:
    """Return the name of each column of ``ROLES``: its role, or with underscores after it where a text column has that name."""
    names: dict[str, str] = {}
    for role in ROLES:
        name = role
        while name in text_columns:
            name = f"{name}_"
        names[role] = name
    return names


def write_review(path: Path, data: DataParams, suspects: Sequence[Suspect]) -> None:
    """Write the review, with an empty column ``correct``. It appears complete or not at all."""
    names = column_names(data.text_columns)
    header = [names[KEY], names[SPLIT], *data.text_columns, *(names[role] for role in (LABEL, PROPOSED, CONFIDENCE, SIMILAR, CORRECT))]
    with replace_file(path) as partial, partial.open("w", encoding=ENCODING, newline="") as file:
        writer = csv.writer(file, delimiter=delimiter(data))
        writer.writerow(header)
        for one in suspects:
            cells = (one.key, one.split, *one.texts, one.label, one.proposed, round(one.confidence, 4), one.similar, "")
            writer.writerow([harmless(cell) for cell in cells])
