"""The formats of files with rows: CSV and TSV, JSON Lines, Parquet.

A new format is a table, and an entry in ``FORMATS``.
"""

import csv
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.core.runtime.errors import DataError, UnreadableError
from tuneline.core.runtime.terminal import listed
from tuneline.core.stage.tables import FEATURES, ROW_GROUP
from tuneline.rows.reading.limits import (
    FIRST_OBJECTS,
    LARGEST_ARRAY,
    LONGEST_CELL,
    PARQUET_BATCH,
    PARQUET_BUFFER,
    PARQUET_ROWS,
)
from tuneline.rows.reading.rows import (
    BadRows,
    RowProblem,
    check_columns,
    json_type,
)
from tuneline.rows.reading.tables import (
    FileTable,
    Format,
    Input,
    TextLines,
    ValueBatch,
    open_text,
    read_errors_explained,
)

if TYPE_CHECKING:
    from tuneline.core.params.data import FilesParams

if TYPE_CHECKING:
    from _csv import Reader

BOM = "\ufeff"
"""Byte order mark. After the start of a file, it is where another file was appended."""
SEPARATOR_LINE = re.compile(r'\ufeff?"?sep=(.)"?\s*')
"""First line by which Excel is told the delimiter."""


def split_records(source: Input, lines: Iterator[str], *, strict: bool = False) -> "Reader":
    """Split lines into records, after the line by which Excel is told the delimiter.

    ``strict`` refuses text after a closing quote.
    """
    is_literal = source.quoting == "literal"
    return csv.reader(
        itertools.dropwhile(SEPARATOR_LINE.fullmatch, lines),
        delimiter=source.delimiter,
        quotechar=source.quote,
        escapechar=None if is_literal else source.escape,
        quoting=csv.QUOTE_NONE if is_literal else csv.QUOTE_MINIMAL,
        strict=strict,
    )


def numbered_columns(count: int) -> tuple[str, ...]:
    """Return the names of so many columns without names."""
    return tuple(f"column_{position + 1}" for position in range(count))


class DelimitedTable(FileTable):
    """An open CSV or TSV file."""

    def __init__(self, source: Input, stack: ExitStack) -> None:
        """Read the header."""
        super().__init__(source)
        # Without a limit, a quote that is never closed would swallow the rest of the file.
        csv.field_size_limit(LONGEST_CELL)
        self.lines = self._lines = stack.enter_context(open_text(source))
        self._records = split_records(source, iter(self._lines), strict=True)
        if source.columns is not None:
            self._names = list(source.columns)
            self.hint = f"The first line is read as a row; the columns are {listed(self._names)}."
        else:
            self._names = self._read_header()
            self.hint = f"Line {self._lines.number} names {listed(self._names)}."
        self._first = self._names[0].lower()

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return self._names

    def column_of(self, values: Sequence[Any]) -> pa.Array:
        """Return the cells of a column of a batch."""
        return pa.array(values, pa.string())

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, list[str] | RowProblem]]:
        """Yield the line and the cells of each row, or its problem. Empty lines are skipped."""
        cells = [self._names.index(name) for name in columns]
        for line, fields in self._read():
            if isinstance(fields, RowProblem):
                yield line, fields
            else:
                yield line, [fields[cell] for cell in cells]

    def _read(self) -> Iterator[tuple[int, list[str] | RowProblem]]:
        """Yield each record's first line number and its fields, or its problem."""
        lines = self._lines
        line = lines.number + 1
        while True:
            try:
                for fields in self._records:
                    if fields or lines.problem is not None:
                        problem = lines.take_problem() or self._problem_of(line, fields)
                        yield line, problem or fields
                    line = lines.number + 1
            except csv.Error as error:
                # The csv module continues with the line after the one that it cannot read.
                problem = lines.take_problem() or self._unreadable(line, str(error))
                yield line, replace(problem, lines=max(1, lines.number - line + 1))
                line = lines.number + 1
            else:
                return

    def _read_header(self) -> list[str]:
        """Return the names of the columns, from the first record that is not empty."""
        lines = self._lines
        try:
            names: list[str] = next(filter(None, self._records), [])
        except csv.Error as error:
            problem: RowProblem | None = self._unreadable(max(lines.number, 1), str(error))
        else:
            problem = lines.take_problem()
        if problem is not None:
            raise DataError(
                f"{lines.name}, line {problem.line:,}, in the header: {problem.message}.", problem.hint
            )
        if not names:
            raise DataError(
                f"{lines.name} is empty, or has only empty lines.",
                "It needs a header line that names its columns, and rows.",
            )

        named = []
        counts = Counter(names)
        for name, numbered in zip(names, numbered_columns(len(names)), strict=True):
            named.append(name if name.strip() else numbered)
            if name.strip() and counts[name] > 1:
                raise DataError(
                    f"{lines.name}, line {lines.number:,}: the header has a column twice.",
                    f"Rename one of the two: {name!r}.",
                )
        return named

    def _problem_of(self, line: int, fields: list[str]) -> RowProblem | None:
        """Return the problem of a row: not as many fields as columns, or the start of another file."""
        width = len(self._names)
        # The first cell tells most rows from a second header, with which another file begins.
        first = fields[0].lower()
        if first == self._first or first.startswith(BOM):
            cells = [field.removeprefix(BOM).strip(' "').lower() for field in fields]
            if cells == [name.lower() for name in self._names]:
                hint = "Remove it: another file was appended here. If it is the first line, name no columns."
                return RowProblem(line, "a header line instead of a row", hint)
        if fields[0].startswith(BOM):
            hint = "Another file was appended here: remove the mark, and its header if it has one."
            return RowProblem(line, "a byte order mark in front of the row", hint)
        if len(fields) != width:
            columns = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
            hint = f"Quote texts that contain {self.source.delimiter!r}, or set data.files.quoting."
            return RowProblem(line, f"{columns}, but {width} in the header", hint)
        return None

    def _unreadable(self, line: int, error: str) -> RowProblem:
        """Return the problem of a record that the csv module refuses, by its message."""
        hint = (
            "Close or double the quote. Where a backslash is before it, set data.files.escape; where quotes"
            " are only characters, set data.files.quoting to literal."
        )
        if "field limit" in error:
            message = f"a quote that is never closed, or a field of more than {LONGEST_CELL:,} characters"
        elif "end of data" in error:
            message = "a quote that opens in this row is never closed"
        elif "expected after" in error:
            message = "text follows a closing quote"
        else:
            message = error
        return RowProblem(line, message, hint)


JSON_HINT = 'Write each row as {"text": "...", "label": "..."}, one per line.'
LINES_HINT = "Write JSON Lines: `jq -c '.[]' FILE > FILE.jsonl`."
BETWEEN = re.compile(r"[\s,]*")

Objects = Iterator[tuple[int, dict[str, Any] | RowProblem]]


class JsonTable(FileTable):
    """An open file with JSON objects. Values are of any type, so they stay Python objects."""

    def __init__(self, source: Input, stack: ExitStack) -> None:
        """Read the first objects, whose keys are the columns."""
        super().__init__(source)
        self.lines = lines = stack.enter_context(open_text(source))
        is_array = lines.starts_with("[")
        objects = _read_array(lines) if is_array else _read_lines(lines)
        names: dict[str, None] = {}
        waiting = []
        for line, record in itertools.islice(objects, FIRST_OBJECTS):
            waiting.append((line, record))
            if isinstance(record, dict):
                names |= dict.fromkeys(record)
            if names and lines.size is None:
                break
        self._names = list(names)
        self._objects = itertools.chain(waiting, objects)

    def names(self) -> list[str]:
        """Return the keys of the first objects, in the order in which they occur."""
        return self._names

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, list[Any] | RowProblem]]:
        """Yield the line and the values of each object, or its problem."""
        named = set(self._names)
        for line, record in self._objects:
            if isinstance(record, RowProblem):
                yield line, record
                continue
            lost = record.keys() - named
            if self.is_whole and lost:
                hint = f"Give {listed(sorted(lost))} to the first object, as null; or name what to copy."
                yield line, RowProblem(line, "a key that the first objects lack", hint)
                continue
            yield line, [record.get(name) for name in columns]


def _read_lines(lines: TextLines) -> Objects:
    """Yield the line number and the object of each row, or its problem. Empty lines are skipped."""
    for line in lines:
        record: dict[str, Any] | RowProblem | None = lines.take_problem()
        if record is None and not line.isspace():
            try:
                record = _checked(json.loads(line), lines.number)
            except (ValueError, RecursionError) as error:
                record = RowProblem(lines.number, f"not JSON: {error}", JSON_HINT)
        if record is not None:
            yield lines.number, record


def _read_array(lines: TextLines) -> Objects:
    """Yield the line number and the object of each element of an array, or its problem.

    Raises:
        DataError: An element is not JSON, or something follows the array: what follows cannot be told from
            rows, so they cannot be counted as bad ones.
    """
    with read_errors_explained(lines.name):
        text = lines.text.read(LARGEST_ARRAY)
    if len(text) == LARGEST_ARRAY:
        problem = f"{lines.name}: an array of JSON of more than {LARGEST_ARRAY:,} characters."
        raise DataError(problem, LINES_HINT)
    decoder = json.JSONDecoder()
    position = text.index("[") + 1
    counted = 0
    line = 1
    while True:
        position = BETWEEN.match(text, position).end()  # type: ignore[union-attr]
        line += text.count("\n", counted, position)
        counted = position
        if text.startswith("]", position):
            break
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            hint = "What follows cannot be read. Fetch the file again, or write JSON Lines."
            raise DataError(f"{lines.name}, line {line:,}: not JSON: {error}.", hint) from None
        yield line, _checked(value, line)
        position = end

    if text[position + 1 :].strip():
        problem = f"{lines.name}, line {line:,}: something follows the array that ends here."
        raise DataError(problem, LINES_HINT)


def _checked(value: Any, line: int) -> dict[str, Any] | RowProblem:
    """Return an object, or the problem of a value that is none."""
    if not isinstance(value, dict):
        return RowProblem(line, f"{json_type(value)} instead of a JSON object", JSON_HINT)
    return value


class ParquetTable(FileTable):
    """An open Parquet file."""

    def __init__(self, source: Input, stack: ExitStack) -> None:
        """Read the footer; a ``DataError`` if it is not the footer of a Parquet file."""
        super().__init__(source)
        path = source.path
        if path is None or path.suffix.lower() == ".gz":
            raise DataError(
                f"{self.name}: Parquet is read from a plain file, because its directory is at its end.",
                "Unpack it, and name the file.",
            )
        with _parquet_explained(self.name):
            self._file = stack.enter_context(
                pq.ParquetFile(path, buffer_size=PARQUET_BUFFER, pre_buffer=False)
            )
            self.schema: pa.Schema = self._file.schema_arrow

    @property
    def total(self) -> int | None:
        """Number of rows."""
        return int(self._file.metadata.num_rows)

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.schema.names)

    def declared(self, column: str) -> tuple[str, ...] | None:
        """Return the class names that the datasets library stored."""
        return declared_names(self.schema, column)

    def has_lists(self, column: str) -> bool:
        """Return True if there is a column of this name, and it has lists of single values."""
        return column in self.schema.names and is_list(self.schema.field(column).type)

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield the number and the values of each row."""
        for batch in self._batches(columns, PARQUET_ROWS):
            values = []
            for name in columns:
                array: Any = batch.columns[name]
                values.append(array.to_pylist())
            yield from zip(batch.positions, zip(*values, strict=True), strict=True)

    def batches(self, columns: Sequence[str], bad: BadRows) -> Iterator[ValueBatch]:  # noqa: ARG002
        """Yield batches of at most ``ROW_GROUP`` rows; no row is bad."""
        return self._batches(columns, ROW_GROUP)

    def _batches(self, columns: Sequence[str], rows: int) -> Iterator[ValueBatch]:
        check_columns(self.names(), columns, self.name)
        first = 1
        with _parquet_explained(self.name):
            for group in range(self._file.num_row_groups):
                metadata = self._file.metadata.row_group(group)
                row_bytes = metadata.total_byte_size / max(1, metadata.num_rows)
                batch_rows = max(1, min(rows, int(PARQUET_BATCH / max(1, row_bytes))))
                batches = self._file.iter_batches(batch_rows, row_groups=[group], columns=list(columns))
                for batch in map(_plain, batches):
                    positions = range(first, first + batch.num_rows)
                    self._check_cells(batch, positions)
                    yield ValueBatch(positions, dict(zip(batch.schema.names, batch.columns, strict=True)))
                    first += batch.num_rows

    def _check_cells(self, batch: pa.RecordBatch, positions: range) -> None:
        """Check that texts are UTF-8."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            values = column.flatten() if is_list(column.type) else column
            if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
                continue
            where = f"{self.name}, rows {positions[0]:,} to {positions[-1]:,}, column {name!r}"
            try:
                values.validate(full=True)
            except pa.ArrowInvalid:
                raise DataError(f"{where}: a text is not utf-8.", "Write the file again.") from None


def declared_names(schema: pa.Schema, column: str) -> tuple[str, ...] | None:
    """Return the class names of a column of ids, or of lists of ids, if the datasets library stored them."""
    try:
        feature = json.loads(schema.metadata[FEATURES])["info"]["features"][column]
        while "feature" in feature:  # a list
            feature = feature["feature"]
        return tuple(feature["names"])
    except (KeyError, TypeError, ValueError):
        return None


def is_list(kind: pa.DataType) -> bool:
    """Return True for an Arrow type of lists of single values."""
    is_any_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(is_any_list and not pa.types.is_nested(kind.value_type))


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch without dictionaries and views."""
    columns = []
    for values in batch.columns:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()  # noqa: PLW2901
        if pa.types.is_string_view(values.type):
            values = values.cast(pa.string())  # noqa: PLW2901
        if is_list(values.type) and pa.types.is_dictionary(values.type.value_type):
            values = values.cast(pa.list_(values.type.value_type.value_type))  # noqa: PLW2901
        columns.append(values)
    return pa.record_batch(columns, names=batch.schema.names)


@contextmanager
def _parquet_explained(name: str) -> Iterator[None]:
    try:
        yield
    except MemoryError:  # Arrow's is an ArrowException as well
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason, *_ = str(error).splitlines() or ["unknown error"]
        if getattr(error, "errno", None):
            raise UnreadableError(
                f"{name} cannot be read: {reason}", "Check that it exists and that you may read it."
            ) from None
        raise DataError(
            f"{name}: not a Parquet file, or a damaged one: {reason}", "Write it again."
        ) from None


CSV = Format("csv", (".csv", ".txt"), DelimitedTable)
TSV = Format("tsv", (".tsv", ".tab"), DelimitedTable, delimiter="\t", quoting="literal")
JSONL = Format("jsonl", (".jsonl", ".ndjson", ".json"), JsonTable)
PARQUET = Format("parquet", (".parquet",), ParquetTable, unit="row", is_columnar=True)
FORMATS: dict[str, Format] = {each.name: each for each in (CSV, TSV, JSONL, PARQUET)}
"""The formats by name."""
FORMAT_OF_SUFFIX = {suffix: each for each in FORMATS.values() for suffix in each.suffixes}
ANY_TEXT = ".txt"
"""The suffix of tables and of all other texts: such a file is read only if it is named."""
ENDINGS = tuple(
    suffix + packed for suffix in FORMAT_OF_SUFFIX if suffix != ANY_TEXT for packed in ("", ".gz")
)
"""Endings of the names of files with rows, by which they are found in a folder."""


def suffix_of(name: str) -> str:
    """Return the suffix that tells the format of a file, in lower case and without ``.gz``."""
    return Path(name.lower().removesuffix(".gz")).suffix


def format_of(path: Path | None, option: str) -> Format:
    """Return the format by the suffix of a file; of standard input or output, JSON Lines.

    Raises:
        DataError: The suffix is unknown. The message names the ``option`` that sets the format.
    """
    if path is None:
        return JSONL
    suffix = suffix_of(path.name)
    if suffix not in FORMAT_OF_SUFFIX:
        hint = f"Set {option} to {', '.join(FORMATS)}, or name a file that ends in {', '.join(ENDINGS)}."
        raise DataError(f"{path}: the format is not clear from the suffix.", hint)
    return FORMAT_OF_SUFFIX[suffix]


def data_input(path: Path, files: "FilesParams") -> Input:
    """Return a file of training data, as ``data.files`` describes it."""
    return format_of(path, "data.files").usual(path).told(files.model_dump())
