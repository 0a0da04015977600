"""The review of labels: a file of rows whose label may be wrong, in which people write the right one.

``tuneline labels apply`` reads it.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tuneline.params.data import DataParams
from tuneline.runtime.errors import InputError, StageError
from tuneline.words.spreadsheet import ENCODING, LONGEST_FIELD, free_names, write_csv

KEY = "key"
SPLIT = "split"
LABEL = "label"
PROPOSED = "proposed"
CONFIDENCE = "confidence"
PLACE = "place"
CORRECT = "correct"
ROLES = (KEY, SPLIT, LABEL, PROPOSED, CONFIDENCE, PLACE, CORRECT)
DELIMITERS = ",;\t"
"""A spreadsheet may save the file with another one than was written."""


class Suspect(NamedTuple):
    """A row whose label may be wrong.

    Attributes:
        key: Hash of its texts, which finds the row again: ``tuneline.analysis.corrections.row_keys``.
        split: Its split; empty if it is not known.
        proposed: Class name or number that models predict that were trained without the row.
        confidence: Probability of the proposed class; ``None`` without one.
        place: Where the row is.
    """

    key: str
    split: str
    texts: tuple[str, ...]
    label: str
    proposed: str
    confidence: float | None
    place: str


def write_review(path: Path, data: DataParams, suspects: Sequence[Suspect]) -> None:
    """Write the review, with an empty column ``correct``."""
    # A text column of the project may have the name of a role, which gets another name then.
    names = free_names(ROLES, data.text_columns)
    header: list[object] = [names[KEY], names[SPLIT], *data.text_columns]
    header += [names[role] for role in (LABEL, PROPOSED, CONFIDENCE, PLACE, CORRECT)]

    rows = []
    for suspect in suspects:
        confidence: float | str = ""
        if suspect.confidence is not None:
            confidence = round(suspect.confidence, 4)
        row: list[object] = [suspect.key, suspect.split, *suspect.texts]
        row += [suspect.label, suspect.proposed, confidence, suspect.place, ""]
        rows.append(row)
    write_csv(path, data, header, rows)


def read_filled(path: Path, data: DataParams) -> list[tuple[int, Suspect, str]]:
    """Read the rows in which ``correct`` is filled in.

    Returns:
        For each of them its number in the file, from 1 after the header, the row, and what was filled in.

    Raises:
        InputError: The file is not a review, or nothing is filled in.
    """
    names = free_names(ROLES, data.text_columns)
    csv.field_size_limit(LONGEST_FIELD)
    filled = []
    try:
        with path.open(encoding=ENCODING, newline="") as file:
            header = file.readline()
            file.seek(0)
            reader = csv.DictReader(file, delimiter=max(DELIMITERS, key=header.count), restval="")
            for name in (*names.values(), *data.text_columns):
                if name not in (reader.fieldnames or ()):
                    raise InputError(f"{path}: no column {name!r} (of `tuneline labels review`).")
            for number, row in enumerate(reader, 1):
                correct = row[names[CORRECT]].strip()
                if not correct:
                    continue
                texts = tuple(row[name] for name in data.text_columns)
                place = row[names[PLACE]]
                key, split, label, proposed = (
                    row[names[role]].strip() for role in (KEY, SPLIT, LABEL, PROPOSED)
                )
                filled.append((number, Suspect(key, split, texts, label, proposed, None, place), correct))
    except (UnicodeDecodeError, csv.Error, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}.", 'Save it as "CSV UTF-8".') from None
    return filled


def check_replaced(path: Path, data: DataParams) -> None:
    """Refuse to replace a file in which a person has filled in labels, or another file."""
    if not path.exists():
        return
    filled = read_filled(path, data)
    if filled:
        raise StageError(
            f"{path} has {len(filled):,} labels, which would be lost.",
            f"Run `tuneline labels apply {path}`, name another file with --output, or add --force.",
        )
