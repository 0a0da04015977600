"""Requests: their limits, bodies and rows, and the errors that refuse them."""

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tuneline.core.runtime.errors import DataError
from tuneline.serve.program_rows import characters_of, texts_of_row

JSON = "application/json"
IDENTITY = "identity"
"""The encoding of a body that is not compressed."""
LAST = {"connection": "close"}
"""Headers of an answer before the body of the request was read to its end."""
ERROR_TYPES = {422: "Tokenizer", 424: "Backend", 429: "Overloaded", 500: "Backend"}
"""Kinds of error by status, as text-embeddings-inference names them; all others are ``Validation``."""


@dataclass(frozen=True)
class ServiceLimits:
    """Limits of requests.

    Attributes:
        body_bytes: Bytes of a body.
        body_seconds: Seconds in which a body has to arrive.
        rows: Rows of a request.
        waiting_rows: Rows of all requests that have no answer yet.
        waiting_bytes: Bytes of their bodies.
        seconds: Seconds after which a request is given up.
        row_characters: Characters of a row. Tokenizers take seconds and a gigabyte for a million without a
            space, of which the model reads the first few.
    """

    body_bytes: int = 2_000_000
    body_seconds: float = 10.0
    rows: int = 1_024
    waiting_rows: int = 4_096
    waiting_bytes: int = 100_000_000
    seconds: float = 30.0
    row_characters: int = 100_000


class RequestError(HTTPException):
    """A request that gets no predictions; its message quotes no text of the request."""


def error_response(error: HTTPException) -> Response:
    """Return the answer to a request that is refused."""
    content = {"error": error.detail, "error_type": ERROR_TYPES.get(error.status_code, "Validation")}
    body = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, error.status_code, error.headers, media_type=JSON)


async def read_json(request: Request, limits: ServiceLimits) -> Any:
    """Return the body of a request, read within its limits and only then parsed.

    Raises:
        RequestError: It is not JSON, has too many bytes, or takes too long; or the path has options.
        ClientDisconnect: The client went away.
    """
    if request.url.query:
        raise RequestError(400, "Options are in the body, and not after a question mark.")
    # Of the types that a web page can send to another origin without being asked, none.
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind != JSON:
        raise RequestError(415, f"The Content-Type of a request is {JSON}.")
    if request.headers.get("content-encoding", IDENTITY).strip().lower() != IDENTITY:
        message = "Content-Encoding: bodies are not decompressed here. Send the body as it is."
        raise RequestError(415, message, {"accept-encoding": IDENTITY})

    too_large = RequestError(
        413,
        f"The body has more than {limits.body_bytes:,} bytes. Send the rows in parts.",
        LAST,
    )
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.body_bytes:
                    raise too_large
    except TimeoutError:
        message = f"The body did not arrive in {limits.body_seconds:.0f} s."
        raise RequestError(408, message, LAST) from None

    try:
        return from_json(bytes(body), allow_inf_nan=False)
    except ValueError as error:
        raise RequestError(400, f"The body is not JSON: {error}.") from None


def field_of(
    body: Any,
    name: str,
    columns: tuple[str, ...],
    options: Collection[str] = (),
    *,
    several: bool = False,
) -> Any:
    """Return a field of a body.

    Args:
        body: The body.
        name: Name of the field.
        columns: Text columns of the model.
        several: True if the field is a list.
        options: Names of the other fields that are read.

    Raises:
        RequestError: It has none, and the message shows a body of a model that reads these columns; or it has
            options that are not read.
    """
    if isinstance(body, Mapping) and name in body and (not several or isinstance(body[name], list)):
        refuse_unread(body, {name, *options})
        return body[name]
    example = row_example(columns)
    if several:
        example = f"[{example}]"
    raise RequestError(400, f'The body is {{"{name}": {example}}}.')


def refuse_unread(asked: Any, read: Collection[str], place: str = "") -> None:
    """Refuse options that nothing here reads: their answer would be another one than was asked for.

    Raises:
        RequestError: There is one; ``place`` is where.
    """
    if not isinstance(asked, Mapping):
        raise RequestError(400, f"{place}there is no object.")
    for name, value in asked.items():
        if name not in read and value not in (None, {}, []):
            message = (
                f"{place}{name[:40]} is not done here, so the answer would be another one: leave it out."
            )
            raise RequestError(400, message)


def row_example(columns: tuple[str, ...]) -> str:
    """Return a row of a model as JSON, for messages."""
    if len(columns) == 1:
        return '"a text"'
    return json.dumps([f"a {column}" for column in columns])


def texts_of_request(
    rows: Sequence[Any], columns: tuple[str, ...], limits: ServiceLimits
) -> list[tuple[str, ...]]:
    """Return the texts of rows: each is a text, a list of as many as the model reads, or an object.

    Raises:
        RequestError: There is no row, or one is not a text, has only white space, or is too long; or there
            are too many rows, of which none is looked at.
    """
    if not rows:
        raise RequestError(400, "There is no row.")
    if len(rows) > limits.rows:
        message = f"{len(rows):,} rows; a request has {limits.rows:,} at most. Send them in parts."
        raise RequestError(413, message)
    texts = []
    for number, row in enumerate(rows):
        try:
            texts.append(texts_of_row(row, columns, f"row {number}"))
        except DataError as error:
            raise RequestError(422, f"{error.problem} {error.hint}") from None
        characters = characters_of(texts[-1])
        if characters > limits.row_characters:
            message = f"row {number}: {characters:,} characters; a row has {limits.row_characters:,} at most."
            raise RequestError(413, message)
    return texts
