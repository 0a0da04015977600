"""Wrong passwords: they are counted in the server's log, and answered slowly.

Prefect compares a password at once, as often as it is asked, and prints nothing. Here, the answer to a wrong
password takes a second, and an address has only so many of these answers open: as long as it has, no further
password of that address is looked at. So one address tries ten passwords in a second, whatever it sends.
"""

import asyncio
import base64
import binascii
import hmac
import logging
import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

from fastapi.responses import JSONResponse

from flows.server.asgi import ASGIApp, Message, Receive, Scope, Send
from tuneline.runtime.terminal import say

SECONDS = 1.0
"""Seconds that the answer to a wrong password takes."""
MOST_OPEN = 10
"""Answers to wrong passwords that an address has open at a time."""
MOST_ADDRESSES = 10_000
"""Addresses whose wrong passwords are counted; then counting begins anew."""
TOO_MANY = "Too many wrong passwords from this address. Try again in a second."
AUTHORIZATION = b"authorization"
BASIC = b"Basic "


class WrongPasswords:
    """The wrong passwords of each address."""

    def __init__(self, seconds: float = SECONDS, most_open: int = MOST_OPEN) -> None:
        self._seconds = seconds
        self._most_open = most_open
        self._counts: Counter[str] = Counter()
        self._open: Counter[str] = Counter()

    def are_too_many(self, address: str) -> bool:
        """Return True if an address has to wait before another password is looked at."""
        return self._open[address] >= self._most_open

    async def answer_slowly(self, address: str) -> None:
        """Count a wrong password, and wait before it is answered.

        The first one of an address is a line in the log, and the tenth, the hundredth and so on.
        """
        if len(self._counts) >= MOST_ADDRESSES:
            self._counts.clear()
        self._counts[address] += 1
        count = self._counts[address]
        if str(count).strip("0") == "1":
            passwords = "a wrong password" if count == 1 else f"{count:,} wrong passwords"
            say(f"server: {passwords} from {address}")

        # Of many requests at once, Prefect compares some before the first one is refused: these wait for each
        # other.
        self._open[address] += 1
        turns = math.ceil(self._open[address] / self._most_open)
        try:
            await asyncio.sleep(turns * self._seconds)
        finally:
            self._open[address] -= 1
            if not self._open[address]:
                del self._open[address]


class PasswordGuard:
    """An application in front of the server, which it passes requests to and whose refusals it delays."""

    def __init__(self, application: ASGIApp, wrong_passwords: WrongPasswords) -> None:
        self._application = application
        self._wrong_passwords = wrong_passwords

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unless its address has sent too many wrong passwords."""
        if scope["type"] != "http" or not any(name == AUTHORIZATION for name, _ in scope["headers"]):
            await self._application(scope, receive, send)
            return

        address = address_of(scope)
        if self._wrong_passwords.are_too_many(address):
            refusal = JSONResponse({"exception_message": TOO_MANY}, 429, {"Retry-After": "1"})
            await refusal(scope, receive, send)
            return

        async def send_slowly(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                await self._wrong_passwords.answer_slowly(address)
            await send(message)

        headers = [(name, _as_utf_8(name, value)) for name, value in scope["headers"]]
        await self._application({**scope, "headers": headers}, receive, send_slowly)


def address_of(scope: Scope) -> str:
    """Return the address of a client, which is not known behind a Unix socket."""
    client = scope.get("client")
    return str(client[0]) if client else "an unknown address"


def _as_utf_8(name: bytes, value: bytes) -> bytes:
    """Return a header with its password as UTF-8, which Prefect expects; browsers send it as Latin-1."""
    if name != AUTHORIZATION or not value.startswith(BASIC):
        return value
    try:
        password = base64.b64decode(value.removeprefix(BASIC), validate=True)
    except binascii.Error:
        return value
    try:
        password.decode("utf-8")
    except UnicodeDecodeError:
        return BASIC + base64.b64encode(password.decode("latin-1").encode("utf-8"))
    return value


def compare_as_bytes() -> None:
    """Let Prefect compare passwords as bytes.

    ``hmac.compare_digest`` raises a TypeError for text beyond ASCII.
    """
    from prefect.server.api import server
    from prefect.server.utilities import subscriptions

    comparison = SimpleNamespace(compare_digest=are_equal)
    for module in (server, subscriptions):
        vars(module)["hmac"] = comparison
    # It has a line for each wrong password of a socket, which are counted here.
    # A filter, because Prefect sets the levels of its loggers anew when the server starts.
    logging.getLogger(subscriptions.__name__).addFilter(lambda record: record.levelno > logging.WARNING)


def are_equal(sent: Any, password: str) -> bool:
    """Return True if what a client sent is the password, in a time that does not depend on it."""
    return isinstance(sent, str) and hmac.compare_digest(
        sent.encode("utf-8", "surrogatepass"), password.encode("utf-8", "surrogatepass")
    )
