"""Requests that get no predictions: the status of the answer, and what the client can do."""

from collections.abc import Mapping
from typing import Literal

ErrorType = Literal["Validation", "Tokenizer", "Backend", "Overloaded", "Empty", "Unhealthy"]
"""Kinds of error, as text-embeddings-inference names them."""


class RequestError(Exception):
    """A request that gets no predictions.

    Attributes:
        status: Status of HTTP.
        message: What is wrong, and what to do; it quotes nothing of the request.
        error_type: Kind of the error.
        headers: Headers of the answer.
    """

    def __init__(
        self, status: int, message: str, error_type: ErrorType, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.error_type = error_type
        self.headers = dict(headers or {})


def invalid(message: str) -> RequestError:
    """Return the error for a body that is no request of its dialect."""
    return RequestError(400, message, "Validation")


def unprocessable(message: str) -> RequestError:
    """Return the error for rows that are no texts, or that the tokenizer cannot encode."""
    return RequestError(422, message, "Tokenizer")


def exceeding(message: str) -> RequestError:
    """Return the error for more than the service or the model takes."""
    return RequestError(413, message, "Validation")


def overloaded(message: str, seconds: float) -> RequestError:
    """Return the error for a request that comes when too much waits; it can come again after ``seconds``."""
    return RequestError(429, message, "Overloaded", {"retry-after": f"{seconds:.0f}"})
