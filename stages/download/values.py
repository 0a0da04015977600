"""Label values of any type, converted to class names or numbers. A row whose label is neither is a bad row."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stages.download.bad_values import BadRowError, BadValues
from tuneline.errors import DataError
from tuneline.files.schemas import UNLABELLED
from tuneline.readers.jsonl import json_type
from tuneline.readers.rows import RowProblem, text_problem

LARGEST = float(np.finfo(np.float32).max)


def label_values(values: pa.Array, regression: bool, bad: BadValues, column: str) -> pa.Array:
    """Convert labels to class names (string) or numbers (float64); missing labels are null.

    White space around a label is dropped; empty text and NaN count as missing. Whole numbers and true/false become class names
    as they are written, so ``1``, ``1.0`` (a float column) and ``"1"`` are the same class.

    Args:
        values: Labels of any type.
        regression: Convert to numbers instead of class names.
        bad: Gets the rows whose label is not a finite number in a regression, or is a fraction in a classification; it is null then.
        column: The label column.

    Raises:
        DataError: Labels of this type cannot be converted.
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if is_text(values.type):
        trimmed = pc.utf8_trim_whitespace(values.cast(pa.string()))
        values = pc.if_else(pc.equal(trimmed, ""), None, trimmed)
    return _numbers(values, bad, column) if regression else _names(values, bad, column)


def group_values(values: pa.Array, place: str) -> pa.Array:
    """Convert the values of ``data.split.by`` to text, white space dropped; missing ones are null.

    Args:
        values: Values of any type. ``7``, ``7.0`` and ``"7"`` are the same group.
        place: The place of the column, for messages.

    Raises:
        DataError: The values are lists or objects.
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_nested(values.type) or pa.types.is_binary(values.type):
        hint = "Name a column of text, numbers or dates in data.split.by."
        raise DataError(f"{place}: values of type {values.type} cannot be groups.", hint)
    texts = values.cast(pa.string())
    if pa.types.is_floating(values.type):
        texts = pc.replace_substring_regex(pc.if_else(pc.is_nan(values), None, texts), r"\.0$", "")
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.equal(trimmed, ""), None, trimmed)


def json_group(value: Any, line: int, column: str) -> str | None:
    """Convert one value of ``data.split.by`` in a JSON Lines file to text, as ``group_values`` does.

    Raises:
        BadRowError: It is a list or an object.
    """
    if isinstance(value, (list, dict)):
        hint = "Name a key of text or numbers in data.split.by."
        raise BadRowError(RowProblem(line, f"{json_type(value)} cannot be a group", hint, repr(column)))
    if value is None or value != value:  # NaN differs from itself  # noqa: PLR0124
        return None
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip() or None


def is_text(type_: pa.DataType) -> bool:
    """Return whether an Arrow type is text."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _names(values: pa.Array, bad: BadValues, column: str) -> pa.Array:
    kind = values.type
    if is_text(kind) or pa.types.is_null(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return values.cast(pa.string())
    if not pa.types.is_floating(kind):
        hint = "Take a column of text or of whole numbers."
        raise DataError(f"{bad.place(column)}: labels of type {kind} cannot be class names.", hint)
    values = pc.if_else(pc.is_nan(values), None, values)
    fractions = pc.or_(pc.not_equal(pc.floor(values), values), pc.greater_equal(pc.abs(values), 2.0**53))
    hint = "Set data.task to regression if labels are numbers to predict."
    bad.add_all(fractions, column, lambda row: f"label {values[row].as_py()} is a fraction, not a class", hint)
    return pc.if_else(fractions, None, values).cast(pa.int64()).cast(pa.string())


def _numbers(values: pa.Array, bad: BadValues, column: str) -> pa.Array:
    kind = values.type
    if is_text(kind):
        values = _parsed(values, bad, column)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
        hint = "Take a column of numbers, or set data.task to classification."
        raise DataError(f"{bad.place(column)}: labels of type {kind} are not numbers.", hint)
    values = values.cast(pa.float64(), safe=False)
    numbers = pc.if_else(pc.is_nan(values), None, values)
    large = pc.greater(pc.abs(numbers), LARGEST)
    bad.add_all(large, column, lambda row: f"label {numbers[row].as_py()} does not fit a 32-bit float", "Correct it, or leave the row out.")
    return pc.if_else(large, None, numbers)


def _parsed(values: pa.Array, bad: BadValues, column: str) -> pa.Array:
    try:
        return values.cast(pa.float64())
    except pa.ArrowInvalid:
        words = pa.array([value is not None and not _is_number(value) for value in values.to_pylist()])
    hint = "Write it like 3.5 or 2e-5, or set data.task to classification."
    bad.add_all(words, column, lambda row: f"label {values[row].as_py()!r} is not a number", hint)
    return pc.if_else(words, None, values).cast(pa.float64())


def _is_number(text: str) -> bool:
    try:
        pa.scalar(text).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def class_names(ids: pa.Array, names: tuple[str, ...], bad: BadValues, column: str) -> pa.Array:
    """Convert ids, as the datasets library stores them, to class names; -1 and null are missing labels.

    Args:
        ids: The ids.
        names: The names by id.
        bad: Gets the rows whose id is not below the number of names.
        column: The label column.
    """
    ids = ids.cast(pa.int64())
    unknown = pc.or_(pc.less(ids, UNLABELLED), pc.greater_equal(ids, len(names)))
    bad.add_all(unknown, column, lambda row: f"label {ids[row].as_py()} is not one of the {len(names)} class ids", "Correct the file.")
    return pa.array(names, pa.string()).take(pc.if_else(pc.or_(pc.equal(ids, UNLABELLED), unknown), None, ids))


class JsonLabels:
    """Converts the labels of one JSON Lines file, which must all be of one type."""

    def __init__(self, column: str, regression: bool) -> None:
        self.column = column
        self.regression = regression
        self.first: tuple[str, int] | None = None

    def convert(self, value: Any, line: int) -> str | float | None:
        """Convert one label to a class name or a number; return ``None`` for a missing one.

        Raises:
            BadRowError: It is neither text nor a number, or of another type than the labels before it.
        """
        if value is None or value == "" or value != value:  # NaN differs from itself  # noqa: PLR0124
            return None
        kind = self._check_type(value, line)
        return self._number(value, kind, line) if self.regression else self._class_name(value, line)

    def _bad(self, line: int, message: str, hint: str) -> BadRowError:
        return BadRowError(RowProblem(line, message, hint, repr(self.column)))

    def _check_type(self, value: Any, line: int) -> str:
        kind = json_type(value)
        if isinstance(value, (list, dict)):
            raise self._bad(line, f"a label is text or a number, not {kind}", "Name another column.")
        first, first_line = self.first = self.first or (kind, line)
        if kind != first:
            message = f"label {value!r} is {kind}, but the label in line {first_line:,} is {first}"
            raise self._bad(line, message, "Write all labels alike.")
        return kind

    def _number(self, value: Any, kind: str, line: int) -> float:
        if kind != "a number":
            hint = "Write it without quotes, or set data.task to classification."
            raise self._bad(line, f"label {value!r} is not a number", hint)
        if abs(value) > LARGEST:
            raise self._bad(line, f"label {value} does not fit a 32-bit float", "Correct it, or leave the row out.")
        return float(value)

    def _class_name(self, value: Any, line: int) -> str | None:
        if isinstance(value, float):
            if not value.is_integer():
                hint = "Set data.task to regression if labels are numbers to predict."
                raise self._bad(line, f"label {value} is a fraction, not a class", hint)
            value = int(value)
        if isinstance(value, bool):
            return str(value).lower()
        name = str(value).strip()
        if problem := text_problem(name, self.column):
            raise BadRowError(RowProblem(line, problem, "Correct the escape sequence."))
        return name or None
