"""LabelSchema as they come, in whatever type, as class names or numbers. A label that is neither is a fault with a place."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tuneline.errors import DataError
from tuneline.files.schemas import UNLABELLED

Where = Callable[[int], str]
"""Names a row of the batch for a message: file, line or row, column."""
LARGEST = float(np.finfo(np.float32).max)


def label_values(values: pa.Array, regression: bool, where: Where) -> pa.Array:
    """LabelSchema as ``Wanted.schema`` has them: class names (string) or numbers (float64); null where there is none.

    White space around a label is dropped; empty text and NaN are no label. Whole numbers and true/false become class names as
    they are written, so ``1``, ``1.0`` (a float column) and ``"1"`` are the same class.

    Args:
        values: Of any type.
        regression: Numbers are wanted, not class names.
        where: Names a row for messages.

    Raises:
        DataError: A label is no number (or not a finite one) where numbers are wanted, or a fraction where names are.
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if is_text(values.type):
        trimmed = pc.utf8_trim_whitespace(values.cast(pa.string()))
        values = pc.if_else(pc.equal(trimmed, ""), None, trimmed)
    return _numbers(values, where) if regression else _names(values, where)


def is_text(type_: pa.DataType) -> bool:
    """Whether Arrow holds text in it."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _names(values: pa.Array, where: Where) -> pa.Array:
    kind = values.type
    if is_text(kind) or pa.types.is_null(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return values.cast(pa.string())
    if not pa.types.is_floating(kind):
        raise DataError(f"{where(0)}: labels of type {kind} are no class names.", "Take a column of text or of whole numbers.")
    values = pc.if_else(pc.is_nan(values), None, values)
    row = _first(pc.or_(pc.not_equal(pc.floor(values), values), pc.greater_equal(pc.abs(values), 2.0**53)))
    if row is not None:
        raise DataError(
            f"{where(row)}: label {values[row].as_py()} is a fraction, no class.",
            "Set data.task to regression if labels are numbers to predict.",
        )
    return values.cast(pa.int64()).cast(pa.string())


def _numbers(values: pa.Array, where: Where) -> pa.Array:
    kind = values.type
    if is_text(kind):
        values = _parsed(values, where)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
        raise DataError(
            f"{where(0)}: labels of type {kind} are no numbers.", "Take a column of numbers, or set data.task to classification."
        )
    values = values.cast(pa.float64(), safe=False)
    values = pc.if_else(pc.is_nan(values), None, values)
    row = _first(pc.greater(pc.abs(values), LARGEST))
    if row is not None:
        raise DataError(f"{where(row)}: label {values[row].as_py()} is not a finite number of 32 bits.", "Mend it, or leave the row out.")
    return values


def _parsed(values: pa.Array, where: Where) -> pa.Array:
    try:
        return values.cast(pa.float64())
    except pa.ArrowInvalid:
        row = next(row for row, value in enumerate(values.to_pylist()) if value is not None and not _is_number(value))
    raise DataError(
        f"{where(row)}: label {values[row].as_py()!r} is no number.",
        "Write it like 3.5 or 2e-5, or set data.task to classification.",
    )


def _is_number(text: str) -> bool:
    try:
        pa.scalar(text).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def class_names(ids: pa.Array, names: tuple[str, ...], where: Where) -> pa.Array:
    """Class names of ids as the datasets library stores them: -1 or null is no label.

    Raises:
        DataError: An id is beyond the names.
    """
    ids = ids.cast(pa.int64())
    row = _first(pc.or_(pc.less(ids, UNLABELLED), pc.greater_equal(ids, len(names))))
    if row is not None:
        raise DataError(f"{where(row)}: label {ids[row].as_py()} is beyond the {len(names)} class names of the column.", "Mend the file.")
    return pa.array(names, pa.string()).take(pc.if_else(pc.equal(ids, UNLABELLED), None, ids))


def _first(holds: pa.BooleanArray) -> int | None:
    row = int(pc.index(holds, pa.scalar(True)).as_py())
    return None if row < 0 else row
