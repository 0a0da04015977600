"""Reads the review that people filled in, as a spreadsheet saved it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tuneline.cli.labels.queue_file import delimiter
from tuneline.cli.labels.review_file import CORRECT, KEY, LABEL, SPLIT, column_names
from tuneline.errors import DataError, InputError
from tuneline.params import DataParams
from tuneline.readers.delimited import DelimitedReader, Dialect
from tuneline.readers.limits import Limits
from tuneline.readers.rows import PARAMETERS, RowProblem, check_columns
from tuneline.readers.text import open_text


@dataclass(frozen=True, slots=True)
class FilledRow:
    """A row of the review in which ``correct`` is filled in.

    Attributes:
        line: Its line in the file.
        key: Hash of its texts.
        split: Its split.
        texts: One or two.
        label: The label that it had when the review was written.
        correct: The label that it should have.
    """

    line: int
    key: str
    split: str
    texts: tuple[str, ...]
    label: str
    correct: str


def read_filled(path: Path, data: DataParams) -> list[FilledRow]:
    """Read the rows in which ``correct`` is filled in.

    Raises:
        InputError: The file is no review, or nothing is filled in. The message names the file, the line and the column.
    """
    names = column_names(data.text_columns)
    try:
        filled = _read(path, data, names)
    except DataError as error:
        is_encoded = PARAMETERS.encoding in (error.hint or "")  # a setting of the source, not of this file
        raise InputError(error.problem, 'Save it as "CSV UTF-8".' if is_encoded else error.hint) from None
    if not filled:
        raise InputError(f"{path}: no row has anything in column {names[CORRECT]!r}.", "Fill it in where another label is right.")
    return filled


def _read(path: Path, data: DataParams, names: Mapping[str, str]) -> list[FilledRow]:
    required = [names[KEY], names[SPLIT], *data.text_columns, names[LABEL], names[CORRECT]]
    filled, files = [], data.files
    limits = Limits.of(files.max_cell_characters, files.max_row_group_mb, files.max_unpacked_mb)
    with open_text(path, "utf-8", limits=limits) as lines:
        reader = DelimitedReader(lines, _dialect(path, data, names[CORRECT]))
        check_columns(reader.names, dict.fromkeys(required, "of `tuneline labels review`"), str(path))
        cells = [reader.names.index(name) for name in required]
        for line, fields in reader:
            if isinstance(fields, RowProblem):
                raise DataError(f"{path}, line {line:,}: {fields.message}.", fields.hint)
            key, split, *texts, label, correct = (fields[cell] for cell in cells)
            if correct.strip():
                filled.append(FilledRow(line, key.strip(), split.strip(), tuple(texts), label.strip(), correct.strip()))
    return filled


def _dialect(path: Path, data: DataParams, column: str) -> Dialect:
    """Return the dialect with the delimiter that the spreadsheet chose: it may be another than the one that was written."""
    candidates = list(dict.fromkeys([delimiter(data), ",", ";", "\t"]))
    for character in candidates:
        dialect = Dialect.default(False, character, "standard")
        with open_text(path, "utf-8") as lines:
            if column in DelimitedReader(lines, dialect).names:
                return dialect
    return Dialect.default(False, candidates[0], "standard")
