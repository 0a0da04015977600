"""What a single value of a file means: the name of a class or of a group, or a number.

``7``, ``7.0`` and ``"7"`` are the same class.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from tuneline.readers.row_texts import json_type
from tuneline.tasks.task import UNLABELLED

LARGEST = float(np.finfo(np.float32).max)
WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.0+")
"""A whole number as text, written as a float is.

As the name of a class it is the same as without the decimals.
"""


class ValueProblemError(ValueError):
    """A value that cannot be used. The message does not quote it; the hint does."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def plain_text(value: Any) -> str | None:
    """Return a group, key or id as text: ``7``, ``7.0`` and ``"7"`` are the same.

    Missing and blank values are ``None``.
    """
    if value is None or value != value:  # NaN differs from itself  # noqa: PLR0124
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Decimal) and _is_whole(value):
        return str(int(value))
    return str(value).strip() or None


def group_name(value: Any) -> str | None:
    """Return a group, key or id as text. A list or an object is a ``ValueProblemError``."""
    if isinstance(value, list | dict):
        raise ValueProblemError(
            f"{json_type(value)} cannot be a group, a key or an id", "Name a column of text or numbers."
        )
    return plain_text(value)


def class_name(value: Any) -> str | None:
    """Return a label as the name of a class; ``None`` if it is missing.

    A whole number loses its decimals: a CSV file of floats writes ``1.0`` for ``1``.

    Raises:
        ValueProblemError: The label is a fraction, a list or an object.
    """
    _refuse_nested(value)
    name = plain_text(value)
    if name is None:
        return None

    # From 2**53 on, a float does not hold every whole number: two classes could become one.
    if isinstance(value, float | Decimal) and (not _is_whole(value) or abs(int(value)) >= 2**53):
        raise ValueProblemError(
            "the label is a fraction, not a class",
            f"It is {value}. Set data.task to regression if labels are numbers to predict.",
        )
    if WHOLE_NUMBER.fullmatch(name):
        return str(int(float(name)))
    return name


@dataclass(frozen=True)
class NumberFormat:
    """How numbers are written. The names are those of ``data.files``.

    Attributes:
        decimal: Character before the decimals.
        thousands: Character between groups of three digits; ``None``: there is none.
        unit: What is before or after each number; ``None``: nothing.
    """

    decimal: str = "."
    thousands: str | None = None
    unit: str | None = None

    def plain(self, text: str) -> str:
        """Return a number as Python reads it."""
        text = text.replace(MINUS, "-")
        if self.unit is not None:
            text = without_unit(text, self.unit)
        if self.thousands == " ":
            text = SPACE.sub("", text)
        elif self.thousands is not None:
            text = text.replace(self.thousands, "")
        if self.decimal != ".":
            text = text.replace(self.decimal, ".")
        return text


USUAL_NUMBERS = NumberFormat()
"""Numbers as Python writes them."""
MINUS = "\u2212"
"""The minus sign of typography."""
SPACE = re.compile(r"(?<=\d)[ \u00a0\u202f](?=\d)")
"""A space between two digits."""
MISSING_NUMBERS = frozenset({"na", "n/a", "nan", "null", "none", "-", "--", "?"})
"""What people and programs write for a missing number, in lower case."""


def without_unit(text: str, unit: str) -> str:
    """Return a number without what is before or after it, whether that is a plural or not: ``3 stars``."""
    singular = unit.removesuffix("s")
    for word in (unit, singular):
        if word and text.endswith(word):
            return text.removesuffix(word).rstrip()
        if word and word in text:
            before, _, after = text.partition(word)
            if before.strip() in ("", "-", "+"):
                return before.strip() + after.lstrip()
    return text


DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def label_number(value: Any, numbers: NumberFormat = USUAL_NUMBERS) -> float | None:
    """Return a label as a number; ``None`` if it is missing, NaN, or a word for a missing number.

    Args:
        value: The label, as it is in the file.
        numbers: How numbers are written.

    Raises:
        ValueProblemError: The label is not a number, does not fit 32 bits, or is a whole number that not even
            64 bits hold exactly, which is an id.
    """
    _refuse_nested(value)
    text = plain_text(value)
    if text is None or text.lower() in MISSING_NUMBERS:
        return None

    if isinstance(value, str):
        text = numbers.plain(text)
    try:
        # Python reads 1_000 and digits of other scripts, other programs do not.
        if "_" in text or not text.isascii():
            raise ValueError
        result = float(text)
    except ValueError:
        hint = f"It is {value!r}. Write it like 3.5 or 2e-5, or set data.task to classification."
        if DECIMAL_COMMA.fullmatch(text):
            hint = f"It is {value!r}, with a decimal comma: set data.files.decimal to ','."
        raise ValueProblemError("the label is not a number", hint) from None
    if abs(result) > LARGEST:
        raise ValueProblemError(
            "the label does not fit a 32-bit float", f"It is {result}. Correct it, or leave the row out."
        )
    digits = text.lstrip("+-0")
    if digits.isdecimal() and int(digits) != abs(result):
        hint = f"{text} would become {result:.0f}. Name another column if it is an id, or scale the numbers."
        raise ValueProblemError("the label has more digits than a number holds", hint)
    if math.isnan(result):
        return None
    return result


def declared_class(names: Sequence[str], value: int | None) -> str | None:
    """Return the name of a class that the datasets library stored as its id; -1 is a missing label."""
    if value is None or value == UNLABELLED:
        return None
    if not 0 <= value < len(names):
        raise ValueProblemError(
            f"the label is not one of the {len(names)} class ids", f"It is {value}. Correct the file."
        )
    return names[value]


def written_classes(names: Sequence[str], observed: Collection[str]) -> tuple[str, ...]:
    """Return how labels are written for each class: by its name, or by its id.

    By its id only if the observed labels are all ids, and not all names.
    """
    written = tuple(class_name(name) or name for name in names)
    ids = tuple(str(position) for position in range(len(names)))
    if set(observed) <= set(written):
        return written
    if set(observed) <= set(ids):
        return ids
    return written


def _refuse_nested(value: Any) -> None:
    if isinstance(value, list | dict):
        raise ValueProblemError(
            f"a label is text or a number, not {json_type(value)}", "Name another column."
        )


def _is_whole(value: float | Decimal) -> bool:
    return math.isfinite(value) and value == int(value)
