"""Rows of a request, in any dialect: a text, a list of as many texts as the model reads, or an object."""

from collections.abc import Sequence
from typing import Any

from tuneline.onnx.program_rows import texts_of_row
from tuneline.runtime.errors import DataError
from tuneline.service.errors import RequestError, unprocessable


def texts_of_request(rows: Sequence[Any], columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the texts of each row.

    Raises:
        RequestError: There is no row, or one is no text or has only white space.
    """
    if not rows:
        raise RequestError(400, "There is no row.", "Empty")
    texts = []
    for number, row in enumerate(rows):
        try:
            texts.append(texts_of_row(row, columns, f"row {number}"))
        except DataError as error:
            raise unprocessable(f"{error.problem} {error.hint}") from None
    return texts


def row_example(columns: tuple[str, ...]) -> str:
    """Return a row of the model as JSON, for messages."""
    if len(columns) == 1:
        return '"a text"'
    return str([f"a {column}" for column in columns]).replace("'", '"')
