"""What the texts of a row must be, for training and prediction: in files, programs and requests alike."""

from collections.abc import Mapping
from typing import Any


def json_type(value: Any) -> str:
    """Name the type of a JSON value, with its article."""
    if value is None:
        return "null"
    names = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list"}
    return names.get(type(value), "an object")


def text_problem(value: Any, column: str) -> str | None:
    """Return why a JSON or Arrow value of a column cannot be used as text, or ``None`` if it can."""
    if not isinstance(value, str):
        return f"column {column!r} is {json_type(value)}, not text"
    # Most texts are ASCII, which costs less to test than to encode.
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return f"column {column!r} has an unpaired surrogate, \\u{ord(value[error.start]):04x}"
    return None


def type_or_blank_problem(texts: Mapping[str, Any]) -> str | None:
    """Return why a row has no texts to predict, or ``None`` if it has: a value is no text, or all are blank.

    A row without text is refused in training as well. ``texts`` has the values by column.
    """
    for column, value in texts.items():
        if not isinstance(value, str):
            return text_problem(value, column)
    if any(value.strip() for value in texts.values()):
        return None
    columns = " and ".join(map(repr, texts))
    return f"column {columns}: no text, or only white space"


def row_problem(texts: Mapping[str, Any]) -> str | None:
    """Return why a row cannot be predicted, or ``None`` if it can."""
    problem = type_or_blank_problem(texts)
    if problem is not None:
        return problem
    for column, value in texts.items():
        problem = text_problem(value, column)
        if problem is not None:
            return problem
    return None
