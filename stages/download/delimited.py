"""CSV and TSV files, read line by line: what does not fit is named with its line."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from stages.download.columns import find_columns, listed
from stages.download.reading import LABEL, PLACE, Wanted, batches_of
from stages.download.textfile import open_text
from stages.download.values import label_values
from tuneline.errors import DataError
from tuneline.params.data import FilesParams

LONGEST_FIELD = 1 << 20
"""Characters. A longer field is a quote that was never closed: without a limit it would swallow the rest of the file."""


@dataclass(frozen=True)
class Dialect:
    """How one file is written.

    Attributes:
        delimiter: One character.
        literal: A quote is a character like any other.
        columns: Names for a file without a header line.
        encoding: Of the text.
    """

    delimiter: str
    literal: bool
    columns: tuple[str, ...] | None
    encoding: str

    @classmethod
    def of(cls, params: FilesParams, tabs: bool) -> "Dialect":
        """What ``data.files`` says, and else what is usual: commas and quotes in CSV; tabs and literal quotes in TSV."""
        literal = tabs if params.quoting is None else params.quoting == "literal"
        columns = None if params.columns is None else tuple(params.columns)
        return cls(params.delimiter or ("\t" if tabs else ","), literal, columns, params.encoding)


def read_delimited(path: Path, dialect: Dialect, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Reads a CSV or TSV file in batches of ``wanted.schema``; ``place`` is the line where a row starts.

    Empty lines are passed over.

    Raises:
        DataError: A line is not what the header and the dialect promise; while reading.
    """
    rows = _Rows(path, dialect, wanted)
    raw = pa.schema([*list(wanted.schema)[:-2], pa.field(LABEL, pa.string()), pa.field(PLACE, pa.int64(), nullable=False)])
    for batch in batches_of(iter(rows), raw):
        places = batch[PLACE].to_pylist()
        label = label_values(batch[LABEL], wanted.regression, partial(rows.where, places))
        yield pa.record_batch([*batch.columns[:-2], label, batch[PLACE]], schema=wanted.schema)


class _Rows:
    """The wanted fields of each row, and the line it starts on."""

    def __init__(self, path: Path, dialect: Dialect, wanted: Wanted) -> None:
        self.path = path
        self.dialect = dialect
        self.wanted = wanted

    def where(self, lines: Sequence[int], row: int) -> str:
        return f"{self.path}, line {lines[row]:,}, column {self.wanted.label_column!r}"

    def __iter__(self) -> Iterator[tuple[str | int | None, ...]]:
        with open_text(self.path, self.dialect.encoding) as text:
            lines = self._split(text)
            hint, names = self._names(lines)
            has_label = find_columns(names, self.wanted, str(self.path), hint)
            texts = [names.index(column) for column in self.wanted.text_columns]
            label = names.index(self.wanted.label_column) if has_label else None
            width = len(names)
            for line, fields in lines:
                if len(fields) != width:
                    raise self._ragged(line, fields, width)
                if fields == names:
                    raise self._header_again(line)
                yield (*[fields[text] for text in texts], None if label is None else fields[label], line)

    def _split(self, text: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
        csv.field_size_limit(LONGEST_FIELD)
        reader = csv.reader(
            text,
            delimiter=self.dialect.delimiter,
            quoting=csv.QUOTE_NONE if self.dialect.literal else csv.QUOTE_MINIMAL,
            strict=True,
        )
        line = 1
        try:
            for fields in reader:
                if fields:
                    yield line, fields
                line = reader.line_num + 1
        except csv.Error as error:
            raise self._unreadable(line, str(error)) from None

    def _names(self, lines: Iterator[tuple[int, list[str]]]) -> tuple[str, list[str]]:
        """Column names, and what to do when one of those wanted is not among them."""
        if self.dialect.columns is not None:
            return f"data.files.columns has {listed(self.dialect.columns)}.", list(self.dialect.columns)
        line, header = next(lines, (0, []))
        if not header:
            raise DataError(f"{self.path} has no rows, only empty lines.", "Fill it, or take another file in data.splits.")
        twice = next((name for name in header if header.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{self.path}, line {line}: column {twice!r} stands twice in the header.", "Rename one of the two.")
        return self._about(line, header), header

    def _about(self, line: int, header: list[str]) -> str:
        if len(header) == 1:
            other = next((character for character in ";\t|,:" if character in header[0]), None)
            if other is not None:
                return f"Line {line} is one column when cut at {self.dialect.delimiter!r}: data.files.delimiter may be {other!r}."
        return f"Line {line} names {listed(header)}. If it is no header, name the columns in data.files.columns."

    def _ragged(self, line: int, fields: list[str], width: int) -> DataError:
        named = "data.files.columns" if self.dialect.columns else "the header"
        problem = f"{self.path}, line {line:,}: {len(fields)} column{'s' * (len(fields) != 1)}, {width} in {named}."
        if self.dialect.literal and any(field.startswith('"') for field in fields):
            return DataError(problem, "Quotes are literal here; if they enclose fields, set data.files.quoting to standard.")
        if len(fields) > width:
            return DataError(problem, f"A text that holds {self.dialect.delimiter!r} must be quoted (data.files.quoting: standard).")
        return DataError(problem, "Mend the line; a file whose quotes are not meant to enclose fields wants data.files.quoting: literal.")

    def _header_again(self, line: int) -> DataError:
        hint = "Set data.files.columns to null: the file names its columns itself."
        if self.dialect.columns is None:
            hint = "Files that were joined keep only the first header: take this line out."
        return DataError(f"{self.path}, line {line:,}: a header, where a row is wanted.", hint)

    def _unreadable(self, line: int, error: str) -> DataError:
        where = f"{self.path}, line {line:,}"
        if "field limit" in error or "end of data" in error:
            hint = "Close it; where quotes are only characters, set data.files.quoting to literal."
            return DataError(f"{where}: a quote that opens in this row is never closed.", hint)
        if "expected after" in error:
            hint = "Double a quote inside a quoted field; where quotes are only characters, set data.files.quoting to literal."
            return DataError(f"{where}: text follows a closing quote.", hint)
        return DataError(f"{where}: {error}.", "Mend the line.")
