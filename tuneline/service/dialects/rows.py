"""Rows of a request, in any dialect: a text, a list of as many texts as the model reads, or an object."""

from collections.abc import Sequence
from typing import Any

from tuneline.program.program_rows import characters_of, texts_of_row
from tuneline.runtime.errors import DataError
from tuneline.service.errors import RequestError, exceeding, unprocessable
from tuneline.service.limits import ServiceLimits


def texts_of_request(
    rows: Sequence[Any], columns: tuple[str, ...], limits: ServiceLimits
) -> list[tuple[str, ...]]:
    """Return the texts of each row.

    Raises:
        RequestError: There is no row, or one is no text, has only white space, or is too long; or there are
            too many rows, of which none is looked at.
    """
    if not rows:
        raise RequestError(400, "There is no row.", "Empty")
    refuse_many(len(rows), limits)
    texts = []
    for number, row in enumerate(rows):
        try:
            texts.append(texts_of_row(row, columns, f"row {number}"))
        except DataError as error:
            raise unprocessable(f"{error.problem} {error.hint}") from None
        characters = characters_of(texts[-1])
        if characters > limits.row_characters:
            raise exceeding(
                f"row {number}: {characters:,} characters; a row has {limits.row_characters:,} at most."
            )
    return texts


def refuse_many(rows: int, limits: ServiceLimits) -> None:
    """Refuse more rows than a request may have.

    Raises:
        RequestError: There are more.
    """
    if rows > limits.rows:
        raise exceeding(f"{rows:,} rows; a request has {limits.rows:,} at most. Send them in parts.")


def row_example(columns: tuple[str, ...]) -> str:
    """Return a row of the model as JSON, for messages."""
    if len(columns) == 1:
        return '"a text"'
    return str([f"a {column}" for column in columns]).replace("'", '"')
