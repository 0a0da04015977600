"""What a single value of a file means: the name of a class or of a group, a number, or a set of names.

``7``, ``7.0`` and ``"7"`` are the same class, unless the user lists a name as it is written. A set has each
name once, sorted, so that equal sets are equal however they are written. The empty set is a label: no name
applies. A missing label is null, and says nothing; in a cell of text it is one of ``MISSING_WORDS``, such as
``?``, because an empty cell is the empty set.
"""

import ast
import json
import math
import re
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from tuneline.model.tasks.multilabel import NO_LABELS
from tuneline.model.tasks.task import MISSING_WORDS, NO_NAMES, SIGNS, UNLABELLED
from tuneline.rows.reading.rows import json_type, text_problem

LARGEST = float(np.finfo(np.float32).max)
WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,15})\.0")
"""A whole number as text, written as a float is: as a name, it is the same as without the decimals.

From 17 digits on, floats are written with an exponent.
"""
MINUS = "\u2212"
"""The minus sign of typography."""


SHOWN_VALUE = 80
"""Characters of a value in a message."""


class ValueProblemError(ValueError):
    """A value that cannot be used. The message does not quote it; the hint does."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def _problem(message: str, value: Any, hint: str) -> ValueProblemError:
    shown = repr(value)
    if len(shown) > SHOWN_VALUE:
        shown = f"{shown[:SHOWN_VALUE]}…"
    return ValueProblemError(message, f"It is {shown}. {hint}")


def plain_text(value: Any) -> str | None:
    """Return a value as text: ``7``, ``7.0`` and ``"7"`` are the same.

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
    """Return a group, key or id as text. A list, an object or bytes are a ``ValueProblemError``.

    A CSV file of floats writes ``7.0`` for ``7``, as pandas does where the column has a gap.
    """
    if isinstance(value, list | dict | bytes):
        raise ValueProblemError(
            f"{json_type(value)} cannot be a group, a key or an id", "Name a column of text or numbers."
        )
    name = plain_text(value)
    return name and _without_decimals(name)


def class_name(value: Any, declared: Sequence[str] | None = None, known: Collection[str] = ()) -> str | None:
    """Return a label as the name of a class; ``None`` if it is missing.

    A whole number loses its decimals: a CSV file of floats writes ``1.0`` for ``1``. A list has one name, or
    none, which is a missing label. Where the file ``declared`` names, a whole number is the id of one, and -1
    a missing label. One of the ``known`` names, which the user listed, is that class, however it reads; a
    word for a missing value that is none of them is a missing label.

    Raises:
        ValueProblemError: The label is a fraction, several names, an object, a date or an unknown id.
    """
    if not (isinstance(value, str) and value.strip() in known):
        value = unwrapped(value)
    name = _name(value, declared, known)
    words = MISSING_WORDS if known else NO_NAMES
    if name is None or (name.lower() in words and name not in known):
        return None
    return name


def unwrapped(value: Any) -> Any:
    """Return the only element of a list, ``None`` for an empty list, else the value as it is."""
    elements = value
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            elements = parse_list(value)
        except ValueProblemError:
            return value
    if not isinstance(elements, list) or len(elements) > 1:
        return value
    element = elements[0] if elements else None
    return value if isinstance(element, list | dict) else element


def _name(value: Any, declared: Sequence[str] | None, known: Collection[str]) -> str | None:
    """Return one name, of a class or in a set."""
    if isinstance(value, int) and not isinstance(value, bool) and declared is not None:
        if value == UNLABELLED:
            return None
        if not 0 <= value < len(declared):
            raise _problem(
                f"the label is not one of the {len(declared)} class ids", value, "Correct the file."
            )
        return declared[value]

    name = plain_text(value)
    if name is None or name in known:
        return name
    if not isinstance(value, str | int | float | Decimal):
        raise ValueProblemError(
            f"a label is text or a number, not {json_type(value)}", "Name another column."
        )
    # From 2**53 on, a float does not hold every whole number: two classes could become one.
    if isinstance(value, float | Decimal) and (not _is_whole(value) or abs(int(value)) >= 2**53):
        hint = "Set data.task to regression if labels are numbers to predict."
        raise _problem("the label is a fraction, not a class", value, hint)
    name = _without_decimals(name)
    return f"{name}.0" if f"{name}.0" in known else name


def _without_decimals(name: str) -> str:
    """Return ``7`` for ``7.0``; any other name as it is."""
    if WHOLE_NUMBER.fullmatch(name):
        return str(int(name.removesuffix(".0")))
    return name


def label_number(value: Any) -> float | None:
    """Return a label as a number; ``None`` if it is missing, NaN, or a word for a missing number.

    Raises:
        ValueProblemError: The label is not a number, does not fit 32 bits, or is a whole number that not even
            64 bits hold exactly, which is an id.
    """
    text = plain_text(value)
    if text is None or text.lower() in MISSING_WORDS:
        return None
    if isinstance(value, str):
        text = text.replace(MINUS, "-")
    try:
        # Python reads 1_000 and digits of other scripts, other programs do not.
        if "_" in text or not text.isascii() or not isinstance(value, str | int | float | Decimal):
            raise ValueError
        result = float(text)
    except ValueError:
        hint = "Write it like 3.5 or 2e-5. For classes, set data.task to classification."
        raise _problem("the label is not a number", value, hint) from None
    if abs(result) > LARGEST:
        raise _problem("the label does not fit a 32-bit float", result, "Correct it, or leave the row out.")
    digits = text.lstrip("+-0")
    if digits.isdecimal() and int(digits) != abs(result):
        hint = "Name another column if it is an id, or scale the numbers."
        raise _problem("the label has more digits than a number holds", text, hint)
    if math.isnan(result):
        return None
    return result


INDICATORS = {
    "1": True,
    "true": True,
    "t": True,
    "yes": True,
    "y": True,
    "x": True,
    "0": False,
    "false": False,
    "f": False,
    "no": False,
    "n": False,
}
"""What a column of a label may have, in lower case."""


def is_missing_indicator(text: str) -> bool:
    """Return True if a text says that it is not known whether a label applies; a dash may mean no."""
    text = text.lower().removesuffix(".0")
    return text in (str(UNLABELLED), "?") or text in MISSING_WORDS - SIGNS


def indicator(value: Any) -> bool | None:
    """Return True if a label applies: 1, or a word for it; False for 0 and for an empty cell.

    ``None`` for a missing value: null, NaN, -1, or a word that says so.

    Raises:
        ValueProblemError: It is something else.
    """
    if isinstance(value, str) and not value.strip():
        return False
    text = plain_text(value)
    if text is None:
        return None
    text = text.lower().removesuffix(".0")
    if is_missing_indicator(text):
        return None
    if text not in INDICATORS:
        hint = "Write 1 where the label applies, else 0; or leave the column out of data.label_sets.columns."
        raise _problem("the value is not 0 or 1", value, hint)
    return INDICATORS[text]


LIST_HINT = """Write a flat list, ["a", "b"] or ['a', 'b'], and [] where no label applies."""
BRACKETS = "><"
"""Separator of names in brackets, ``<a><b>``: the ends of the cell have the outer brackets."""
_NO_COMMA = re.compile(r"""(?<=['"])\s+(?=['"])""")
"""Between elements of a list as NumPy writes it, which Python would read as one element."""


def separated(text: str, separator: str) -> list[str]:
    """Return the parts of a cell."""
    if separator == BRACKETS:
        text = text.strip().removeprefix("<").removesuffix(">")
    return text.split(separator)


def parse_list(text: str) -> list[Any]:
    """Return the elements of a list as text, as JSON, Python or NumPy write it; of an empty text, none.

    Raises:
        ValueProblemError: It is not a list.
    """
    text = text.strip()
    if not text:
        return []
    try:
        elements = json.loads(text)
    except (ValueError, RecursionError):
        try:
            elements = ast.literal_eval(text if "," in text else _NO_COMMA.sub(", ", text))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            elements = None
    if not isinstance(elements, list | tuple | set):
        raise _problem("the labels are not a list", text, LIST_HINT)
    return list(elements)


def listed_names(
    value: Any, declared: Sequence[str] | None = None, known: Collection[str] = ()
) -> list[str] | None:
    """Return a list, of JSON, Arrow or as text, as a set; ``None`` if it is missing or has the id -1."""
    if isinstance(value, str):
        if value.strip().lower() in MISSING_WORDS:
            return None
        value = parse_list(value)
    if value is None:
        return None
    if not isinstance(value, list):
        raise _problem(f"the labels are {json_type(value)}, not a list", value, LIST_HINT)
    names = []
    for element in value:
        if element is None or element != element:  # NaN  # noqa: PLR0124
            raise _problem("the list of labels has null in it", value, LIST_HINT)
        name = _name(element, declared, known)
        if name is None and not isinstance(element, str):
            return None
        names.append(name or "")
    return set_of_names(names, known)


def separated_names(value: Any, separator: str, known: Collection[str] = ()) -> list[str] | None:
    """Return a cell with names and a separator between them as a set; ``None`` if it is missing."""
    if not isinstance(value, str):
        name = class_name(value, known=known)
        return None if name is None else [name]
    if value.strip() not in known and value.strip().lower() in NO_NAMES:
        return None
    return set_of_names(separated(value, separator), known)


def set_of_names(parts: Iterable[str], known: Collection[str] = ()) -> list[str]:
    """Return the set of the names in these texts: without empty ones and repeats, sorted.

    ``NO_LABELS`` is not a name: people who read it may write it into their files.

    Raises:
        ValueProblemError: A name is not a text.
    """
    names = set()
    for part in parts:
        name = _name(part, None, known)
        if name is None or name == NO_LABELS:
            continue
        if text_problem(name, "") is not None:
            raise ValueProblemError("a label has an unpaired surrogate", "Correct the escape sequence.")
        names.add(name)
    return sorted(names)


def sorted_names(names: Collection[str]) -> list[str]:
    """Return class names in the order of their ids: whole numbers as numbers, so that '2' is before '10'."""
    if all(name.removeprefix("-").isdecimal() and name.isascii() for name in names):
        return sorted(names, key=int)
    return sorted(names)


def written_classes(names: Sequence[str], observed: Collection[str]) -> tuple[str, ...]:
    """Return how labels are written for each class: by its name, or by its id.

    By its id only if all observed labels are ids, and no class is named like an id: of classes 1 to 5, a 0 is
    a mistake, and not the first one.
    """
    ids = tuple(str(position) for position in range(len(names)))
    if observed and set(observed) <= set(ids) and set(names).isdisjoint(ids):
        return ids
    return tuple(names)


def _is_whole(value: float | Decimal) -> bool:
    return math.isfinite(value) and value == int(value)
