"""JSON Lines: one object per line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from stages.download.columns import find_columns
from stages.download.reading import Wanted, batches_of
from stages.download.textfile import open_text
from stages.download.values import LARGEST
from tuneline.errors import DataError

_KINDS = {str: "text", bool: "true or false", int: "a number", float: "a number"}


def read_jsonl(path: Path, encoding: str, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Reads a JSON Lines file in batches of ``wanted.schema``; ``place`` is the line. Empty lines are passed over.

    Raises:
        DataError: A line is no JSON object with the wanted keys; while reading.
    """
    return batches_of(_rows(path, encoding, wanted), wanted.schema)


def _rows(path: Path, encoding: str, wanted: Wanted) -> Iterator[tuple[Any, ...]]:
    labels = _Labels(path, wanted)
    with open_text(path, encoding) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number:,}"
            record = _object(line, where)
            has_label = find_columns(list(record), wanted, where)
            texts = [_text(record[column], where, column) for column in wanted.text_columns]
            yield (*texts, labels.value(record[wanted.label_column], number) if has_label else None, number)


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: no JSON: {error.msg} at character {error.pos + 1}.", "One JSON object per line.") from None
    except RecursionError:
        raise DataError(f"{where}: JSON nested too deep.", "One flat JSON object per line.") from None
    if not isinstance(value, dict):
        raise DataError(f"{where}: a JSON object is wanted, not {_kind(value)}.", 'Write each row as {"text": "...", "label": "..."}.')
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return _KINDS.get(type(value), "a list" if isinstance(value, list) else "an object")


def _text(value: Any, where: str, column: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise DataError(f"{where}, column {column!r}: text is wanted, not {_kind(value)}.", "Put it in quotes, or take another column.")
    if value is not None and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            half = f"\\u{ord(value[error.start]):04x}"
            raise DataError(f"{where}, column {column!r}: {half} is half a character.", "Mend the escape.") from None
    return str(value) if value is not None else None


class _Labels:
    """LabelSchema of one file: all of one kind."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        self.path = path
        self.wanted = wanted
        self.first: tuple[str, int] | None = None

    def value(self, value: Any, line: int) -> str | float | None:
        if value is None or value == "" or value != value:  # NaN is the number that differs from itself  # noqa: PLR0124
            return None
        self._same_kind(value, line)
        return self._number(value, line) if self.wanted.regression else self._name(value, line)

    def _where(self, line: int) -> str:
        return f"{self.path}, line {line:,}, column {self.wanted.label_column!r}"

    def _same_kind(self, value: Any, line: int) -> None:
        if type(value) not in _KINDS:
            raise DataError(f"{self._where(line)}: a label is text or a number, not {_kind(value)}.", "Take another column.")
        kind, first = self.first = self.first or (_kind(value), line)
        if _kind(value) != kind:
            raise DataError(
                f"{self._where(line)}: label {value!r} is {_kind(value)}, that of line {first:,} is {kind}.", "Write all alike."
            )

    def _number(self, value: Any, line: int) -> float:
        if _kind(value) != "a number":
            hint = "Write it without quotes, or set data.task to classification."
            raise DataError(f"{self._where(line)}: label {value!r} is no number.", hint)
        if abs(value) > LARGEST:
            raise DataError(f"{self._where(line)}: label {value} is not a finite number of 32 bits.", "Mend it, or leave the row out.")
        return float(value)

    def _name(self, value: Any, line: int) -> str | None:
        if isinstance(value, float):
            if not value.is_integer():
                hint = "Set data.task to regression if labels are numbers to predict."
                raise DataError(f"{self._where(line)}: label {value} is a fraction, no class.", hint)
            value = int(value)
        if isinstance(value, bool):
            return str(value).lower()
        return _text(str(value).strip(), f"{self.path}, line {line:,}", self.wanted.label_column) or None
