"""Rows of a labelled file, in batches: CSV, TSV, JSON Lines or Parquet, plain or gzip, as ``data.files`` describes them."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from flows.ingestion.columns import POSITION, RowColumns, ValueProblemError, as_class, as_number, as_text
from tuneline.errors import DataError
from tuneline.files.schemas import ROW_GROUP, LabelSchema
from tuneline.params.data import FilesParams
from tuneline.readers.bad_rows import BadRows
from tuneline.readers.delimited import DelimitedReader, Dialect
from tuneline.readers.jsonl import read_jsonl
from tuneline.readers.limits import Limits
from tuneline.readers.parquet import open_parquet
from tuneline.readers.rows import ENDINGS, RowProblem, check_columns, listed, text_problem
from tuneline.readers.text import open_text

Values = Mapping[str, list[Any]]
"""Values of a batch by column."""
T = TypeVar("T")
Choose = Callable[[Sequence[str]], Sequence[str]]
"""Takes the columns of a file, and returns those to read."""


def ending_of(name: str) -> str | None:
    """Return the ending of a file that can be read, such as ``.csv.gz``; ``None`` for any other."""
    return next((ending for ending in sorted(ENDINGS, key=len, reverse=True) if name.lower().endswith(ending)), None)


def unit_of(path: Path) -> str:
    """Return what the rows of a file are counted by: ``row`` or ``line``."""
    return "row" if (ending_of(path.name) or "").startswith(".parquet") else "line"


def read_values(path: Path, files: FilesParams, choose: Choose, bad: BadRows) -> Iterator[tuple[list[int], Values]]:
    """Yield the line or row numbers and the values of each batch. A value that a JSON object lacks is ``None``.

    Args:
        path: The file.
        files: Its format.
        choose: Chooses the columns.
        bad: Gets the rows that cannot be read.

    Raises:
        DataError: The file cannot be read, ``choose`` refuses its columns, or a row is bad and that is an error; while reading.
    """
    limits = Limits.of(files.max_cell_characters, files.max_row_group_mb, files.max_unpacked_mb)
    kind = (ending_of(path.name) or "").removesuffix(".gz")
    if kind == ".parquet":
        yield from _parquet_values(path, limits, choose)
        return
    with open_text(path, files.encoding, limits=limits) as lines:
        if kind == ".jsonl":
            yield from _json_values(path, _readable(read_jsonl(lines), bad), choose)
        else:
            reader = DelimitedReader(lines, Dialect.default(kind == ".tsv", files.delimiter, files.quoting, files.columns))
            names = choose(reader.names)
            cells = [reader.names.index(name) for name in names]
            rows = _readable(reader, bad)
            while chunk := list(islice(rows, ROW_GROUP)):
                values = {name: [fields[cell] for _, fields in chunk] for name, cell in zip(names, cells, strict=True)}
                yield [line for line, _ in chunk], values


def _readable(rows: Iterable[tuple[int, T | RowProblem]], bad: BadRows) -> Iterator[tuple[int, T]]:
    for line, row in rows:
        if isinstance(row, RowProblem):
            bad.add(row)
        else:
            yield line, row


def _json_values(path: Path, records: Iterator[tuple[int, dict[str, Any]]], choose: Choose) -> Iterator[tuple[list[int], Values]]:
    names: Sequence[str] | None = None
    while chunk := list(islice(records, ROW_GROUP)):
        names = names or choose(list(chunk[0][1]))
        yield [line for line, _ in chunk], {name: [record.get(name) for _, record in chunk] for name in names}
    if names is None:
        raise DataError(f"{path} has no rows.", "Write one JSON object per line.")


def _parquet_values(path: Path, limits: Limits, choose: Choose) -> Iterator[tuple[list[int], Values]]:
    first = 1
    with open_parquet(path, limits=limits) as file:
        names = choose(file.schema.names)
        declared: dict[str, tuple[str, ...]] = {}
        for name in names:
            with suppress(DataError):  # the file is not one of the datasets library
                declared[name] = LabelSchema.of(file.schema, name).names or ()
        for batch in file.batches(ROW_GROUP, list(names)):
            values = {name: _declared(batch[name].to_pylist(), declared.get(name)) for name in names}
            yield list(range(first, first + batch.num_rows)), values
            first += batch.num_rows


def _declared(values: list[Any], names: tuple[str, ...] | None) -> list[Any]:
    """Replace the class ids of the datasets library by class names; -1 is a missing label."""
    if not names:
        return values
    return [names[value] if isinstance(value, int) and 0 <= value < len(names) else None if value == -1 else value for value in values]


class LabelledFile:
    """A file with new labels: rows with texts, or late labels of texts that were scored.

    Attributes:
        path: The file.
        name: Its name in messages.
        columns: The columns of a batch.
        id: Column of the id of late labels.
        incomplete: Rows without a label, so far.
        bad: The bad rows, so far.
    """

    def __init__(self, path: Path, name: str, columns: RowColumns, id_column: str | None = None) -> None:
        self.path, self.name, self.columns, self.id = path, name, columns, id_column
        self.incomplete = 0
        self.bad = BadRows(name, unit_of(path), columns.policy)

    def batches(self, files: FilesParams) -> Iterator[pa.Table]:
        """Yield complete rows with ``POSITION``: columns of a batch file; of late labels without the texts, but with the id as text.

        Raises:
            DataError: The file cannot be used, a row is bad and that is an error, or too many are; while reading.
        """
        usable = 0
        for positions, values in read_values(self.path, files, self._choose, self.bad):
            invalid: set[int] = set()
            columns = {name: self._convert(name, column, positions, invalid) for name, column in values.items()}
            kept = self._complete(columns, positions, invalid)
            usable += len(positions) - len(invalid)
            if len(kept) < len(positions):
                columns = {name: [column[row] for row in kept] for name, column in columns.items()}
            types = {name: pa.float64() if name == self.columns.label and self.columns.regression else pa.string() for name in columns}
            arrays = {name: pa.array(column, types[name]) for name, column in columns.items()}
            yield pa.table({**arrays, POSITION: pa.array([positions[row] for row in kept], pa.int64())})
        self.bad.check(usable)

    def _choose(self, present: Sequence[str]) -> Sequence[str]:
        late = self.id in present and not set(self.columns.texts) & set(present)
        names = tuple(dict.fromkeys([*([str(self.id)] if late else self.columns.texts), self.columns.label, *self.columns.others]))
        check_columns(present, {**self.columns.options(names), **({str(self.id): "id of the source"} if late else {})}, self.name)
        return names

    def _convert(self, name: str, values: list[Any], positions: list[int], invalid: set[int]) -> list[Any]:
        """Return the converted values of a column; those of bad rows, which are added to ``invalid``, are ``None``."""
        text = name in self.columns.texts
        convert: Callable[[Any], Any] = as_text
        if name == self.columns.label:
            convert = as_number if self.columns.regression else as_class
        converted = []
        for row, value in enumerate(values):
            try:
                converted.append(self._text(name, value) if text else convert(value))
            except ValueProblemError as problem:
                message, _, hint = str(problem).partition(". ")
                self._leave_out(row, invalid, RowProblem(positions[row], message, f"{hint}.", "" if text else repr(name)))
                converted.append(None)
        return converted

    def _leave_out(self, row: int, invalid: set[int], problem: RowProblem) -> None:
        if row not in invalid:
            invalid.add(row)
            self.bad.add(problem)

    @staticmethod
    def _text(name: str, value: Any) -> str | None:
        if value is not None and (problem := text_problem(value, name)):
            raise ValueProblemError(f"{problem}. Put text in quotes, or name another column in data.text_columns")
        return value  # type: ignore[no-any-return]  # text_problem has no complaint: it is text

    def _complete(self, columns: Values, positions: list[int], invalid: set[int]) -> list[int]:
        """Return the rows that have all they need; count the others. A row without a label is one that a person has left open.

        Raises:
            DataError: A labelled row has no text or id, and bad rows are an error.
        """
        texts = [columns[name] for name in self.columns.texts if name in columns]
        ids = columns.get(str(self.id)) if not texts else None
        kept = []
        for row in range(len(positions)):
            if row in invalid:
                continue
            if columns[self.columns.label][row] is None:
                self.incomplete += 1
                continue
            no_text = texts and (any(column[row] is None for column in texts) or not any(column[row].strip() for column in texts))
            if not no_text and (ids is None or ids[row] is not None):
                kept.append(row)
            else:
                problem = RowProblem(positions[row], f"no {'text' if no_text else 'id'}", "Fill it in.")
                self._leave_out(row, invalid, problem)
        return kept

    def place(self, table: pa.Table, row: int) -> str:
        """Return the place of a label, for messages."""
        return self._where(table[POSITION][row].as_py(), self.columns.label)

    def _where(self, position: int, column: str | None = None) -> str:
        return f"{self.name}, {self.bad.unit} {position:,}" + (f", column {column!r}" if column else "")


def known_rows(path: Path, columns: RowColumns, files: FilesParams) -> Iterator[Values]:
    """Yield the texts, and label and key where the file has them, of data that the pipeline reads already; ``None`` where missing.

    Raises:
        DataError: The file cannot be read, or a row is bad and that is an error; while reading.
    """

    def choose(present: Sequence[str]) -> Sequence[str]:
        check_columns(present, columns.options(columns.texts), str(path), f"It has {listed(present)}.")
        return [*columns.texts, *(name for name in dict.fromkeys((columns.label, columns.key)) if name is not None and name in present)]

    as_label = as_number if columns.regression else as_class
    # Stage download limits the share of bad rows.
    bad = BadRows(str(path), unit_of(path), dataclasses.replace(columns.policy, max_share=1.0))

    def converted(convert: Callable[[Any], Any], column: str, values: list[Any], positions: list[int]) -> Iterator[Any]:
        for value, position in zip(values, positions, strict=True):
            try:
                yield convert(value)
            except ValueProblemError as problem:
                bad.add(RowProblem(position, str(problem), "Correct it.", repr(column)))
                yield None

    for positions, values in read_values(path, files, choose, bad):
        nothing = [None] * len(positions)
        yield {
            **{name: [str(value or "") for value in values[name]] for name in columns.texts},
            columns.label: list(converted(as_label, columns.label, values.get(columns.label, nothing), positions)),
            **({columns.key: list(converted(as_text, columns.key, values.get(columns.key, nothing), positions))} if columns.key else {}),
        }
