"""Rows of a labelled file, in batches: CSV, TSV, JSON Lines or Parquet, plain or gzip, as ``data.files`` describes them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.ingestion.columns import POSITION, RowColumns, ValueProblemError, as_class, as_number, as_text
from tuneline.errors import DataError
from tuneline.files.schemas import ROW_GROUP, LabelSchema
from tuneline.params.data import FilesParams
from tuneline.readers.delimited import DelimitedReader, Dialect
from tuneline.readers.jsonl import read_jsonl
from tuneline.readers.limits import Limits
from tuneline.readers.parquet import open_parquet
from tuneline.readers.rows import ENDINGS, RowProblem, check_columns, listed, text_problem
from tuneline.readers.text import open_text

Values = Mapping[str, list[Any]]
"""Values of a batch by column."""
Choose = Callable[[Sequence[str]], Sequence[str]]
"""Takes the columns of a file, and returns those to read."""


def ending_of(name: str) -> str | None:
    """Return the ending of a file that can be read, such as ``.csv.gz``; ``None`` for any other."""
    return next((ending for ending in sorted(ENDINGS, key=len, reverse=True) if name.lower().endswith(ending)), None)


def read_values(path: Path, files: FilesParams, choose: Choose) -> Iterator[tuple[list[int], Values]]:
    """Yield the line or row numbers and the values of each batch. A value that a JSON object lacks is ``None``.

    Raises:
        DataError: The file or a row cannot be read, or ``choose`` refuses its columns; while reading.
    """
    limits = Limits.of(files.max_cell_characters, files.max_row_group_mb, files.max_unpacked_mb)
    kind = (ending_of(path.name) or "").removesuffix(".gz")
    if kind == ".parquet":
        yield from _parquet_values(path, limits, choose)
        return
    with open_text(path, files.encoding, limits=limits) as lines:
        if kind == ".jsonl":
            records = ((line, _readable(path, line, record)) for line, record in read_jsonl(lines))
            yield from _json_values(path, records, choose)
        else:
            reader = DelimitedReader(lines, Dialect.default(kind == ".tsv", files.delimiter, files.quoting, files.columns))
            names = choose(reader.names)
            cells = [reader.names.index(name) for name in names]
            rows = ((line, _readable(path, line, fields)) for line, fields in reader)
            while chunk := list(islice(rows, ROW_GROUP)):
                values = {name: [fields[cell] for _, fields in chunk] for name, cell in zip(names, cells, strict=True)}
                yield [line for line, _ in chunk], values


def _readable(path: Path, line: int, row: Any) -> Any:
    if isinstance(row, RowProblem):
        raise DataError(f"{path}, line {line:,}: {row.message}.", row.hint)
    return row


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
        incomplete: Rows left out for want of a text or label, so far.
    """

    def __init__(self, path: Path, name: str, columns: RowColumns, id_column: str | None = None) -> None:
        self.path, self.name, self.columns, self.id = path, name, columns, id_column
        self.incomplete = 0
        self.unit = "row" if (ending_of(path.name) or "").startswith(".parquet") else "line"

    def batches(self, files: FilesParams) -> Iterator[pa.Table]:
        """Yield complete rows with ``POSITION``: columns of a batch file; of late labels without the texts, but with the id as text.

        Raises:
            DataError: The file or a value cannot be used; while reading.
        """
        for positions, values in read_values(self.path, files, self._choose):
            columns = {name: self._convert(name, column, positions) for name, column in values.items()}
            kept = self._complete(columns, positions)
            if len(kept) < len(positions):
                columns = {name: [column[row] for row in kept] for name, column in columns.items()}
            types = {name: pa.float64() if name == self.columns.label and self.columns.regression else pa.string() for name in columns}
            arrays = {name: pa.array(column, types[name]) for name, column in columns.items()}
            yield pa.table({**arrays, POSITION: pa.array([positions[row] for row in kept], pa.int64())})

    def _choose(self, present: Sequence[str]) -> Sequence[str]:
        late = self.id in present and not set(self.columns.texts) & set(present)
        names = tuple(dict.fromkeys([*([str(self.id)] if late else self.columns.texts), self.columns.label, *self.columns.others]))
        check_columns(present, {**self.columns.options(names), **({str(self.id): "id of the source"} if late else {})}, self.name)
        return names

    def _convert(self, name: str, values: list[Any], positions: list[int]) -> list[Any]:
        if name in self.columns.texts:
            return [self._text(name, value, position) for value, position in zip(values, positions, strict=True)]
        convert: Callable[[Any], Any] = as_text
        if name == self.columns.label:
            convert = as_number if self.columns.regression else as_class
        converted = []
        for value, position in zip(values, positions, strict=True):
            try:
                converted.append(convert(value))
            except ValueProblemError as problem:
                message, _, hint = str(problem).partition(". ")
                raise DataError(f"{self._where(position, name)}: {message}.", f"{hint}.") from None
        return converted

    def _text(self, name: str, value: Any, position: int) -> str | None:
        if value is not None and (problem := text_problem(value, name)):
            raise DataError(f"{self._where(position)}: {problem}.", "Put text in quotes, or name another column in data.text_columns.")
        return value  # type: ignore[no-any-return]  # text_problem has no complaint: it is text

    def _complete(self, columns: Values, positions: list[int]) -> list[int]:
        """Return the rows that have all they need; count the others. A row without a label is one that a person has left open.

        Raises:
            DataError: A labelled row has no text or id, and ``data.drop_incomplete`` is false.
        """
        texts = [columns[name] for name in self.columns.texts if name in columns]
        ids = columns.get(str(self.id)) if not texts else None
        kept = []
        for row, position in enumerate(positions):
            if columns[self.columns.label][row] is None:
                continue
            no_text = texts and (any(column[row] is None for column in texts) or not any(column[row].strip() for column in texts))
            if not no_text and (ids is None or ids[row] is not None):
                kept.append(row)
            elif not self.columns.drop_incomplete:
                hint = "Fill it in, or set data.drop_incomplete to true to leave out such rows."
                raise DataError(f"{self._where(position)}: no {'text' if no_text else 'id'}.", hint)
        self.incomplete += len(positions) - len(kept)
        return kept

    def place(self, table: pa.Table, row: int) -> str:
        """Return the place of a label, for messages."""
        return self._where(table[POSITION][row].as_py(), self.columns.label)

    def _where(self, position: int, column: str | None = None) -> str:
        return f"{self.name}, {self.unit} {position:,}" + (f", column {column!r}" if column else "")


def known_rows(path: Path, columns: RowColumns, files: FilesParams) -> Iterator[Values]:
    """Yield the texts, and label and key where the file has them, of data that the pipeline reads already; ``None`` where missing.

    Raises:
        DataError: The file cannot be read; while reading.
    """

    def choose(present: Sequence[str]) -> Sequence[str]:
        check_columns(present, columns.options(columns.texts), str(path), f"It has {listed(present)}.")
        return [*columns.texts, *(name for name in dict.fromkeys((columns.label, columns.key)) if name is not None and name in present)]

    convert = as_number if columns.regression else as_class
    for positions, values in read_values(path, files, choose):
        nothing = [None] * len(positions)
        try:
            yield {
                **{name: [str(value or "") for value in values[name]] for name in columns.texts},
                columns.label: [convert(value) for value in values.get(columns.label, nothing)],
                **({columns.key: [as_text(value) for value in values.get(columns.key, nothing)]} if columns.key else {}),
            }
        except ValueProblemError as problem:
            raise DataError(f"{path}: {problem}.") from None
