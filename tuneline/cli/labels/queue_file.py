"""The queue as a CSV file that people open in a spreadsheet, and that is read as labelled data afterwards."""

import csv
from collections.abc import Sequence
from pathlib import Path

from tuneline.cli.labels.ranking import Choice
from tuneline.errors import StageError
from tuneline.files import replace_file
from tuneline.params import DataParams

ENCODING = "utf-8-sig"
"""With a byte order mark: without one, Excel takes the file for another encoding."""
LONGEST_FIELD = 2**31 - 1
"""Characters."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a cell that a spreadsheet may execute."""


def check_replaced(
    path: Path, data: DataParams, force: bool, column: str | None = None, use: str = "Put it into the drop folder of flow ingest"
) -> None:
    """Check that nothing is replaced that a person has filled in.

    Args:
        path: The file that will be written.
        data: The section ``data``.
        force: Replace it all the same.
        column: The column that people fill in.
        use: What to do with a file that they have filled in.

    Raises:
        StageError: They have filled in some rows, or it is another file.
    """
    if path.is_dir():
        raise StageError(f"--output: {path} is a folder.", "Name a file in it.")
    if force or not path.exists():
        return
    csv.field_size_limit(LONGEST_FIELD)
    try:
        with path.open(encoding=ENCODING, errors="replace", newline="") as file:
            filled = sum(bool((row[column] or "").strip()) for row in csv.DictReader(file, delimiter=delimiter(data)))
    except (csv.Error, KeyError):
        hint = "Name another file with --output, or add --force."
        raise StageError(f"{path} is another file: it has no column {column!r}.", hint) from None
    if filled:
        raise StageError(f"{path} has {filled:,} labels, which would be lost.", f"{use}, name another file with --output, or add --force.")


def delimiter(data: DataParams) -> str:
    """Return the delimiter of the CSV files of the pipeline."""
    return data.files.delimiter or ","


def write_queue(path: Path, data: DataParams, id_column: str | None, choices: Sequence[Choice]) -> None:
    """Write the queue, with an empty label column. It appears complete or not at all."""
    own = [*([id_column] if id_column else []), *data.text_columns, data.label_column]
    added = []
    for name in ("predicted", "probability", "new_words", "reason"):
        while name in own:
            name = f"{name}_"  # noqa: PLW2901
        added.append(name)
    with replace_file(path) as partial, partial.open("w", encoding=ENCODING, newline="") as file:
        writer = csv.writer(file, delimiter=delimiter(data))
        writer.writerow([*own, *added])
        for one in choices:
            row, classes = one.row, one.row.probabilities
            given = [*([row.id or ""] if id_column else []), *row.texts, ""]
            probability = round(max(classes.values()), 4) if classes else ""
            new_words = "" if one.new_words is None else round(one.new_words, 2)
            writer.writerow([harmless(cell) for cell in (*given, str(row.prediction), probability, new_words, one.reason)])


def harmless(cell: object) -> object:
    """Return a cell that no spreadsheet executes: with a space before a formula, which no comparison of texts sees. Numbers stay."""
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f" {cell}"
    return cell
