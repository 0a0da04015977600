"""Messages of the flows to people, as Prefect's server has them: who gets them, and whether they arrive.

The address is a block of Prefect, with its secret. When the last message arrived is a variable beside it.
"""

from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

BLOCK_TYPE = "tuneline-recipient"
"""Slug of the type of the block."""
RECIPIENT_BLOCK = "people"
"""Name of the block with the address."""
VARIABLE = "tuneline_messages"
"""Name of the variable with a ``MessageRecord``."""
SERVER_PATIENCE = 10.0
"""Seconds to wait for the server."""
SET = "python -m flows.server.notifications set"
TEST = "python -m flows.server.notifications test"


class MessageRecord(BaseModel):
    """When messages arrived, since the address was set.

    Attributes:
        accepted: Time of the last message that the receiver took.
        lost: Time at which the last one was given up that it did not take.
    """

    model_config = ConfigDict(frozen=True)

    accepted: datetime | None = None
    lost: datetime | None = None


class Messages(NamedTuple):
    """What is known of the messages.

    Attributes:
        text: In words.
        remedy: What to do about it; ``None`` if messages arrive.
    """

    text: str
    remedy: str | None = None


class ServerError(Exception):
    """The server does not answer, or refuses the password."""


def messages(api: str, password: str | None) -> Messages:
    """Return what the server at an address knows of its messages.

    Args:
        api: Address of Prefect's API.
        password: ``USER:PASSWORD``.

    Raises:
        ServerError: The server cannot be asked; the message says why.
    """
    try:
        with _client(api, password) as client:
            block = _read(client, f"block_types/slug/{BLOCK_TYPE}/block_documents/name/{RECIPIENT_BLOCK}")
            variable = _read(client, f"variables/name/{VARIABLE}")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise ServerError(f"the Prefect server at {api} cannot be asked: {_reason(error)}") from None

    if block is None:
        return Messages("nobody is told when a run fails or an alert is due: no address is set", SET)
    record = MessageRecord()
    if isinstance(variable, dict):
        with suppress(ValidationError):  # somebody else's
            record = MessageRecord.model_validate(variable.get("value"))
    return _in_words(record)


def _client(api: str, password: str | None) -> httpx.Client:
    user, _, secret = (password or "").partition(":")
    auth = (user, secret) if password else None
    return httpx.Client(base_url=f"{api}/", auth=auth, timeout=SERVER_PATIENCE)


def _read(client: httpx.Client, path: str) -> object:
    """Return what the server has at a path; ``None`` if it has nothing."""
    answer = client.get(path)
    if answer.status_code == httpx.codes.NOT_FOUND:
        return None
    return answer.raise_for_status().json()


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"status {error.response.status_code}"
    return str(error) or type(error).__name__


def _in_words(record: MessageRecord) -> Messages:
    if record.lost is not None and (record.accepted is None or record.lost > record.accepted):
        return Messages(f"the last message to people, on {_date(record.lost)}, was not taken", TEST)
    if record.accepted is None:
        return Messages("no message to people has arrived since its address was set", TEST)
    return Messages(f"the last message to people arrived on {_date(record.accepted)}")


def _date(time: datetime) -> str:
    return f"{time.astimezone():%Y-%m-%d %H:%M}"
