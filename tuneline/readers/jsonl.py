"""Files with one JSON object per line, or with one array of objects."""

import itertools
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tuneline.core.tables import ROW_GROUP
from tuneline.readers.row_texts import json_type
from tuneline.readers.rows import BadRows, RowProblem, missing_column
from tuneline.readers.tables import (
    FileTable,
    Format,
    Input,
    Layout,
    ValueBatch,
    first_rows,
    open_lines,
    readable,
)
from tuneline.readers.text import TextLines


@dataclass(frozen=True)
class JsonLines(Format):
    """JSON objects, whose keys are the columns."""

    def described(self, layout: Layout) -> str:
        """Return the encoding."""
        return f"JSON, {layout.encoding}"

    def open(self, source: Input, stack: ExitStack) -> "JsonTable":
        """Open a file."""
        return JsonTable(source, stack.enter_context(open_lines(source)))


JSONL = JsonLines("jsonl", (".jsonl", ".ndjson", ".json"))


class JsonTable(FileTable):
    """An open file with JSON objects. Values are of any type, so they stay Python objects."""

    has_schema: ClassVar[bool] = False

    def __init__(self, source: Input, lines: TextLines) -> None:
        super().__init__(source, lines)
        self._objects: Iterator[tuple[int, dict[str, Any] | RowProblem]] = read_jsonl(lines)

    def names(self) -> list[str]:
        """Return the keys of the first object that has any."""
        # Rows up to that object are read here, and put back.
        waiting: list[tuple[int, dict[str, Any] | RowProblem]] = []
        names: list[str] = []
        for line, record in itertools.islice(self._objects, ROW_GROUP):
            waiting.append((line, record))
            if isinstance(record, dict) and record:
                names = list(record)
                break
        self._objects = itertools.chain(waiting, self._objects)
        return names

    def rows(
        self,
        columns: Mapping[str, str],
        everywhere: Collection[str] | None = None,
        lists: Collection[str] = (),  # noqa: ARG002
    ) -> Iterator[tuple[int, list[Any] | RowProblem]]:
        """Yield the line and the values of each object, or its problem.

        ``keys`` gets the keys of the objects, until each column was in one.
        """
        required = columns.keys() if everywhere is None else everywhere
        unseen = set(columns)
        for line, record in self._objects:
            if isinstance(record, RowProblem):
                yield line, record
                continue

            if unseen:
                unseen -= record.keys()
                self.keys |= dict.fromkeys(record)

            for name in required:
                if name not in record:
                    message, hint = missing_column(name, columns[name], record)
                    yield line, RowProblem(line, message, hint)
                    break
            else:
                yield line, [record.get(name) for name in columns]

    def all_columns(self, bad: BadRows) -> Iterator[ValueBatch]:
        """Yield batches of all keys that the objects of the batch have, in the order in which they occur."""
        objects = readable(self._objects, bad)
        while chunk := list(first_rows(objects)):
            names: dict[str, None] = {}
            for _, record in chunk:
                names |= dict.fromkeys(record)
            columns = {}
            for name in names:
                columns[name] = [record.get(name) for _, record in chunk]
            yield ValueBatch([line for line, _ in chunk], columns)


def read_jsonl(lines: TextLines) -> Iterator[tuple[int, dict[str, Any] | RowProblem]]:
    """Yield the line number and the object of each row, or its problem. Empty lines are skipped.

    The file has JSON Lines, or is one array of objects. Its first character tells which, whatever the file is
    called.
    """
    if lines.starts_with("["):
        yield from _read_array(lines)
        return

    for line in lines:
        if lines.problem is None and line.isspace():
            lines.content = ""
            continue

        record: dict[str, Any] | RowProblem
        if lines.problem is not None:
            record = lines.take_problem() or {}
        else:
            record = _parse(line, lines.number)
            if len(line) > lines.limits.cell and not isinstance(record, RowProblem):
                record = _too_long(record, lines) or record
        if isinstance(record, RowProblem):
            record = replace(record, content=lines.content)
        yield lines.number, record
        lines.content = ""


LONGEST_OBJECT = 1 << 24
"""Characters of an object of an array, which is in memory as a whole."""


def _read_array(lines: TextLines) -> Iterator[tuple[int, dict[str, Any] | RowProblem]]:
    """Yield the elements of an array of objects. After one that is not JSON, nothing more can be read."""
    array = _JsonArray(lines)
    while array.has_more():
        line, record, content = array.take()
        if not isinstance(record, RowProblem):
            record = _checked_object(record, line)
        if isinstance(record, RowProblem):
            record = replace(record, content=content)
        elif len(content) > lines.limits.cell:
            record = _too_long(record, lines) or record
        yield line, record


class _JsonArray:
    """The elements of a JSON array, which is read in pieces: it may be larger than memory."""

    def __init__(self, lines: TextLines) -> None:
        self._lines = lines
        self._text = ""
        self._decoder = json.JSONDecoder()
        self._is_broken = False
        while "[" not in self._text:
            self._text += lines.read_piece()
        self._position = self._text.index("[") + 1

    def has_more(self) -> bool:
        """Go to the start of the next element; return False at the end of the array."""
        while not self._is_broken:
            while self._position < len(self._text) and self._text[self._position] in ", \t\r\n":
                self._position += 1
            if self._position < len(self._text):
                return self._text[self._position] != "]"
            if not self._read_more():
                return True  # and ``take`` finds that the array has no end
        return False

    def take(self) -> tuple[int, Any, str]:
        """Return the line of the next element, the element or its problem, and its text."""
        while True:
            start = self._position
            line = self._lines.number + self._text.count("\n", 0, start) + 1
            try:
                value, self._position = self._decoder.raw_decode(self._text, start)
            except (ValueError, RecursionError) as error:  # also where the piece ends within the element
                is_long = len(self._text) - start > LONGEST_OBJECT
                if is_long or isinstance(error, RecursionError) or not self._read_more():
                    self._is_broken = True
                    return line, _json_problem(error, line, ""), self._text[start:]
            else:
                return line, value, self._text[start : self._position]

    def _read_more(self) -> bool:
        """Drop what was read, and read another piece; return False at the end of the file."""
        piece = self._lines.read_piece()
        self._lines.number += self._text.count("\n", 0, self._position)
        self._text = self._text[self._position :] + piece
        self._position = 0
        return bool(piece)


def _too_long(record: dict[str, Any], lines: TextLines) -> RowProblem | None:
    """Return the problem of an object with a text longer than the limit, or ``None``."""
    option = lines.options.cell
    limit = lines.limits.cell
    for name, value in record.items():
        if isinstance(value, str) and len(value) > limit:
            message = f"column {name!r} has {len(value):,} characters, more than {limit:,} ({option})"
            return RowProblem(lines.number, message, f"If the text is as it should be, raise {option}.")
    return None


def _parse(line: str, number: int) -> dict[str, Any] | RowProblem:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return _json_problem(error, number, line)
    return _checked_object(value, number)


def _json_problem(error: Exception, number: int, line: str) -> RowProblem:
    """Return what an error of the decoder means; ``line`` is what it read."""
    if isinstance(error, RecursionError):
        return RowProblem(number, "JSON nested too deep", "Write one flat JSON object per line.")
    if not isinstance(error, json.JSONDecodeError):  # a number of too many digits
        return RowProblem(number, f"JSON that cannot be read: {error}", "Write one JSON object per line.")
    if line.startswith("\ufeff"):
        return RowProblem(
            number,
            "a byte order mark in front of the row",
            "Another file was appended here: remove the mark.",
        )
    message = f"not JSON: {error.msg}"
    if line:
        message += f" at character {error.pos + 1}"
    return RowProblem(number, message, "Write one JSON object per line.")


def _checked_object(value: Any, number: int) -> dict[str, Any] | RowProblem:
    if isinstance(value, dict):
        return value
    return RowProblem(
        number,
        f"{json_type(value)} instead of a JSON object",
        'Write each row as {"text": "...", "label": "..."}.',
    )
