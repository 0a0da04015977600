"""Files with one JSON object per line, or with one array of objects."""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from tuneline.core.runtime.errors import DataError
from tuneline.rows.reading.rows import LARGEST_ARRAY, RowProblem, json_type
from tuneline.rows.reading.tables import FileTable, Format, Input, open_lines
from tuneline.rows.reading.text import TextLines, read_errors_explained

FIRST_OBJECTS = 1_000
"""Objects whose keys are the columns. Of a stream it is one: the next may come late."""
HINT = 'Write each row as {"text": "...", "label": "..."}, one per line.'
BETWEEN = re.compile(r"[\s,]*")

Objects = Iterator[tuple[int, dict[str, Any] | RowProblem]]


class JsonTable(FileTable):
    """An open file with JSON objects. Values are of any type, so they stay Python objects."""

    def __init__(self, source: Input, stack: ExitStack) -> None:
        """Read the first objects, whose keys are the columns."""
        super().__init__(source)
        self.lines = lines = stack.enter_context(open_lines(source))
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
        for line, record in self._objects:
            if isinstance(record, RowProblem):
                yield line, record
            else:
                yield line, [record.get(name) for name in columns]


def _read_lines(lines: TextLines) -> Objects:
    """Yield the line number and the object of each row, or its problem. Empty lines are skipped."""
    for line in lines:
        record: dict[str, Any] | RowProblem | None = lines.take_problem()
        if record is None and not line.isspace():
            try:
                record = _checked(json.loads(line), lines.number)
            except (ValueError, RecursionError) as error:
                record = RowProblem(lines.number, f"not JSON: {error}", HINT)
        if record is not None:
            yield lines.number, record


def _read_array(lines: TextLines) -> Objects:
    """Yield the elements of an array of objects. After one that is not JSON, nothing more can be read."""
    with read_errors_explained(lines.name):
        text = lines.text.read(LARGEST_ARRAY)
    if len(text) == LARGEST_ARRAY:
        raise DataError(
            f"{lines.name}: an array of JSON of more than {LARGEST_ARRAY:,} characters.",
            "Write JSON Lines: `jq -c '.[]' FILE > FILE.jsonl`.",
        )
    decoder = json.JSONDecoder()
    position = text.index("[") + 1
    counted = 0
    line = 1
    while True:
        position = BETWEEN.match(text, position).end()  # type: ignore[union-attr]
        line += text.count("\n", counted, position)
        counted = position
        if text[position : position + 1] == "]":
            return
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            yield line, RowProblem(line, f"not JSON: {error}", HINT)
            return
        yield line, _checked(value, line)
        position = end


def _checked(value: Any, line: int) -> dict[str, Any] | RowProblem:
    """Return an object, or the problem of a value that is none."""
    if not isinstance(value, dict):
        return RowProblem(line, f"{json_type(value)} instead of a JSON object", HINT)
    return value


JSONL = Format("jsonl", (".jsonl", ".ndjson", ".json"), JsonTable)
