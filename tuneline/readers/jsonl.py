"""JSON Lines: one object per line."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tuneline.readers.rows import RowProblem
from tuneline.readers.text import Lines


def read_jsonl(lines: Lines) -> Iterator[tuple[int, dict[str, Any] | RowProblem]]:
    """Yield each line's number and its object, or its problem. Empty lines are skipped.

    Raises:
        DataError: The file cannot be read any further.
    """
    for line in lines:
        record: dict[str, Any] | RowProblem = {}
        if lines.problem is not None:
            record = lines.take_problem() or {}
        elif not line.isspace():
            record = _parse(line, lines.number)
            if len(line) > lines.limits.cell and not isinstance(record, RowProblem):
                record = _too_long(record, lines) or record
        else:
            lines.content = ""
            continue
        yield lines.number, replace(record, content=lines.content) if isinstance(record, RowProblem) else record
        lines.content = ""


def _too_long(record: dict[str, Any], lines: Lines) -> RowProblem | None:
    option, limit = lines.options.cell, lines.limits.cell
    for name, value in record.items():
        if isinstance(value, str) and len(value) > limit:
            message = f"column {name!r} has {len(value):,} characters, more than {limit:,} ({option})"
            return RowProblem(lines.number, message, f"If the text is as it should be, raise {option}.")
    return None


def _parse(line: str, number: int) -> dict[str, Any] | RowProblem:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        if line.startswith("\ufeff"):
            return RowProblem(number, "a byte order mark in front of the row", "Another file was appended here: remove the mark.")
        return RowProblem(number, f"not JSON: {error.msg} at character {error.pos + 1}", "Write one JSON object per line.")
    except RecursionError:
        return RowProblem(number, "JSON nested too deep", "Write one flat JSON object per line.")
    except ValueError as error:  # a number of too many digits
        return RowProblem(number, f"JSON that cannot be read: {error}", "Write one JSON object per line.")
    if not isinstance(value, dict):
        return RowProblem(number, f"{json_type(value)} instead of a JSON object", 'Write each row as {"text": "...", "label": "..."}.')
    return value


def json_type(value: Any) -> str:
    """Name the type of a JSON value, with its article."""
    if value is None:
        return "null"
    names = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list"}
    return names.get(type(value), "an object")
