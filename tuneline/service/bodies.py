"""Bodies of requests: read with limits of bytes and time, and only then parsed."""

import asyncio
from typing import Any

from pydantic_core import from_json
from starlette.requests import Request

from tuneline.service.errors import RequestError, exceeding, invalid
from tuneline.service.limits import ServiceLimits

JSON = "application/json"


async def read_body(request: Request, limits: ServiceLimits) -> bytes:
    """Return the body of a request.

    Raises:
        RequestError: It has too many bytes, takes too long, or is no JSON by its header.
        ClientDisconnect: The client went away.
    """
    # None of the types that a web page can send to another origin without being asked. Triton's client sends
    # no type at all.
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind not in {JSON, "application/octet-stream"}:
        raise RequestError(415, f"The Content-Type of a request is {JSON}.", "Validation")
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length) > limits.body_bytes:
        raise _exceeding(limits)

    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.body_bytes:
                    raise _exceeding(limits)
    except TimeoutError:
        message = f"The body did not arrive in {limits.body_seconds:.0f} s."
        raise RequestError(408, message, "Validation", {"connection": "close"}) from None
    return bytes(body)


def parsed(body: bytes) -> Any:
    """Return the JSON of a body.

    Raises:
        RequestError: It is no JSON, or is nested too deeply.
    """
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise invalid(f"The body is no JSON: {error}.") from None


def _exceeding(limits: ServiceLimits) -> RequestError:
    error = exceeding(f"The body has more than {limits.body_bytes:,} bytes. Send the rows in parts.")
    error.headers["connection"] = "close"
    return error
