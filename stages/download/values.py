"""Label values of any type, converted to class names or numbers. An error names the row of the label that is neither."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tuneline.errors import DataError
from tuneline.files.schemas import UNLABELLED
from tuneline.readers.jsonl import json_type
from tuneline.readers.rows import WHOLE_NUMBER, text_problem

Where = Callable[[int], str]
"""Returns the place of a row of the batch for a message: file, line or row, column."""
LARGEST = float(np.finfo(np.float32).max)


def label_values(values: pa.Array, regression: bool, where: Where) -> pa.Array:
    """Convert labels to class names (string) or numbers (float64); missing labels are null.

    White space around a label is dropped; empty text and NaN count as missing. Whole numbers and true/false become class names
    as they are written, but without decimals: ``1``, ``"1"`` and ``1.0``, in a column of floats or as text, are the same class.

    Args:
        values: Labels of any type.
        regression: Convert to numbers instead of class names.
        where: Returns the place of a row for messages.

    Raises:
        DataError: A label is not a finite number in a regression, or is a fraction in a classification.
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if is_text(values.type):
        trimmed = pc.utf8_trim_whitespace(values.cast(pa.string()))
        values = pc.if_else(pc.equal(trimmed, ""), None, trimmed)
    return _numbers(values, where) if regression else _names(values, where)


def class_texts(texts: pa.Array) -> pa.Array:
    """Drop the decimals of whole numbers, so that a class has one name in all files: a CSV file of floats writes ``1.0`` for ``1``."""
    is_whole = pc.match_substring_regex(texts, f"^{WHOLE_NUMBER.pattern}$")
    if not pc.any(is_whole).as_py():
        return texts
    whole = texts.filter(is_whole).cast(pa.float64()).cast(pa.int64()).cast(pa.string())
    return pc.replace_with_mask(texts, is_whole, whole)


def group_values(values: pa.Array, where: Where) -> pa.Array:
    """Convert the values of ``data.split.by`` to text, white space dropped; missing ones are null.

    Args:
        values: Values of any type. ``7``, ``7.0`` and ``"7"`` are the same group.
        where: Returns the place of a row for messages.

    Raises:
        DataError: The values are lists or objects.
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_nested(values.type) or pa.types.is_binary(values.type):
        hint = "Name a column of text, numbers or dates in data.split.by."
        raise DataError(f"{where(0)}: values of type {values.type} cannot be groups.", hint)
    texts = values.cast(pa.string())
    if pa.types.is_floating(values.type):
        texts = pc.replace_substring_regex(pc.if_else(pc.is_nan(values), None, texts), r"\.0$", "")
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.equal(trimmed, ""), None, trimmed)


def json_group(value: Any, where: str) -> str | None:
    """Convert one value of ``data.split.by`` in a JSON Lines file to text, as ``group_values`` does.

    Raises:
        DataError: It is a list or an object.
    """
    if isinstance(value, (list, dict)):
        raise DataError(f"{where}: {json_type(value)} cannot be a group.", "Name a key of text or numbers in data.split.by.")
    if value is None or value != value:  # NaN differs from itself  # noqa: PLR0124
        return None
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip() or None


def is_text(type_: pa.DataType) -> bool:
    """Return whether an Arrow type is text."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _names(values: pa.Array, where: Where) -> pa.Array:
    kind = values.type
    if is_text(kind):
        return class_texts(values)
    if pa.types.is_null(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return values.cast(pa.string())
    if not pa.types.is_floating(kind):
        raise DataError(f"{where(0)}: labels of type {kind} cannot be class names.", "Take a column of text or of whole numbers.")
    values = pc.if_else(pc.is_nan(values), None, values)
    row = _first(pc.or_(pc.not_equal(pc.floor(values), values), pc.greater_equal(pc.abs(values), 2.0**53)))
    if row is not None:
        raise DataError(
            f"{where(row)}: label {values[row].as_py()} is a fraction, not a class.",
            "Set data.task to regression if labels are numbers to predict.",
        )
    return values.cast(pa.int64()).cast(pa.string())


def _numbers(values: pa.Array, where: Where) -> pa.Array:
    kind = values.type
    if is_text(kind):
        values = _parsed(values, where)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
        raise DataError(
            f"{where(0)}: labels of type {kind} are not numbers.", "Take a column of numbers, or set data.task to classification."
        )
    values = values.cast(pa.float64(), safe=False)
    values = pc.if_else(pc.is_nan(values), None, values)
    row = _first(pc.greater(pc.abs(values), LARGEST))
    if row is not None:
        raise DataError(f"{where(row)}: label {values[row].as_py()} does not fit a 32-bit float.", "Correct it, or leave the row out.")
    return values


def _parsed(values: pa.Array, where: Where) -> pa.Array:
    try:
        return values.cast(pa.float64())
    except pa.ArrowInvalid:
        row = next(row for row, value in enumerate(values.to_pylist()) if value is not None and not _is_number(value))
    raise DataError(
        f"{where(row)}: label {values[row].as_py()!r} is not a number.",
        "Write it like 3.5 or 2e-5, or set data.task to classification.",
    )


def _is_number(text: str) -> bool:
    try:
        pa.scalar(text).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def class_names(ids: pa.Array, names: tuple[str, ...], where: Where) -> pa.Array:
    """Convert ids, as the datasets library stores them, to class names; -1 and null are missing labels.

    Raises:
        DataError: An id is not below the number of names.
    """
    ids = ids.cast(pa.int64())
    row = _first(pc.or_(pc.less(ids, UNLABELLED), pc.greater_equal(ids, len(names))))
    if row is not None:
        raise DataError(f"{where(row)}: label {ids[row].as_py()} is not one of the {len(names)} class ids.", "Correct the file.")
    return pa.array(names, pa.string()).take(pc.if_else(pc.equal(ids, UNLABELLED), None, ids))


def _first(mask: pa.BooleanArray) -> int | None:
    row = int(pc.index(mask, pa.scalar(True)).as_py())
    return None if row < 0 else row


class JsonLabels:
    """Converts the labels of one JSON Lines file, which must all be of one type."""

    def __init__(self, name: str, column: str, regression: bool) -> None:
        self.name = name
        self.column = column
        self.regression = regression
        self.first: tuple[str, int] | None = None

    def convert(self, value: Any, line: int) -> str | float | None:
        """Convert one label to a class name or a number; return ``None`` for a missing one.

        Raises:
            DataError: It is neither text nor a number, or of another type than the labels before it.
        """
        if value is None or value == "" or value != value:  # NaN differs from itself  # noqa: PLR0124
            return None
        kind = self._check_type(value, line)
        return self._number(value, kind, line) if self.regression else self._class_name(value, line)

    def _where(self, line: int) -> str:
        return f"{self.name}, line {line:,}, column {self.column!r}"

    def _check_type(self, value: Any, line: int) -> str:
        kind = json_type(value)
        if isinstance(value, (list, dict)):
            raise DataError(f"{self._where(line)}: a label is text or a number, not {kind}.", "Name another column.")
        first, first_line = self.first = self.first or (kind, line)
        if kind != first:
            problem = f"{self._where(line)}: label {value!r} is {kind}, but the label in line {first_line:,} is {first}."
            raise DataError(problem, "Write all labels alike.")
        return kind

    def _number(self, value: Any, kind: str, line: int) -> float:
        if kind != "a number":
            hint = "Write it without quotes, or set data.task to classification."
            raise DataError(f"{self._where(line)}: label {value!r} is not a number.", hint)
        if abs(value) > LARGEST:
            raise DataError(f"{self._where(line)}: label {value} does not fit a 32-bit float.", "Correct it, or leave the row out.")
        return float(value)

    def _class_name(self, value: Any, line: int) -> str | None:
        if isinstance(value, float):
            if not value.is_integer():
                hint = "Set data.task to regression if labels are numbers to predict."
                raise DataError(f"{self._where(line)}: label {value} is a fraction, not a class.", hint)
            value = int(value)
        if isinstance(value, bool):
            return str(value).lower()
        name = str(value).strip()
        if WHOLE_NUMBER.fullmatch(name):
            return str(int(float(name)))
        if problem := text_problem(name, self.column):
            raise DataError(f"{self.name}, line {line:,}: {problem}.", "Correct the escape sequence.")
        return name or None
