"""Web sockets of the server: which ones are opened, and how long one may stay without the password.

A browser opens sockets to any server for any page, without asking the server first as it does for other
requests, and Prefect reads the password only from the first message of a socket. So a page could hold a
hundred sockets open that never send one. ``SocketGuard`` refuses those of other pages before they are opened,
closes one that does not send the password in time, and lets only so many wait for it.

Prefect has another limit for SQLite: a hundred requests at a time. A socket counted as one as long as it was
open, and so did an answer that its client reads slowly, so that a hundred of them stopped the server.
``RequestLimit`` counts requests with the password, and no sockets.
"""

import asyncio
import json
from collections.abc import Collection
from typing import Any

from flows.server.asgi import ASGIApp, Message, Receive, Scope, Send
from flows.server.passwords import TOO_MANY, WrongPasswords, address_of
from tuneline.runtime.terminal import say, visible

SECONDS_TO_AUTHENTICATE = 5.0
"""Seconds that a new socket has for its password."""
MOST_OF_AN_ADDRESS = 32
"""Sockets of one address that wait for a password at a time."""
MOST_OF_ALL = 256
"""Sockets of all addresses that wait for a password at a time."""
AUTHENTICATED = "auth_success"
"""Type of the message with which Prefect answers the right password."""
POLICY_VIOLATION = 1008
"""Code with which a socket is closed (RFC 6455, section 7.4.1)."""


class SocketGuard:
    """An application in front of the server, which it passes all requests to but sockets that it refuses."""

    def __init__(
        self,
        application: ASGIApp,
        origins: Collection[str],
        wrong_passwords: WrongPasswords,
    ) -> None:
        """Prepare the guard.

        Args:
            application: The server.
            origins: Web origins of the server's own pages. A program sends no origin.
            wrong_passwords: Those that requests and sockets have sent.
        """
        self._application = application
        self._origins = frozenset(origins)
        self._wrong_passwords = wrong_passwords
        self._open: list[_Socket] = []  # the oldest first
        self._said: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse the socket that it opens."""
        if scope["type"] != "websocket":
            await self._application(scope, receive, send)
            return

        address = address_of(scope)
        reason = self._reason_to_refuse(scope, address)
        if reason:
            self._say_once(address, reason)
            await _refuse(receive, send)
            return

        self._make_room(address)
        socket = _Socket(address, receive, send, self._wrong_passwords)
        self._open.append(socket)
        try:
            await self._serve(socket, scope)
        finally:
            self._open.remove(socket)

    def _reason_to_refuse(self, scope: Scope, address: str) -> str:
        """Return why a socket is not opened; empty if it is."""
        for name, value in scope["headers"]:
            if name == b"origin" and value.decode("latin-1") not in self._origins:
                return f"it is of a page of {visible(value.decode('latin-1'))}"
        if self._wrong_passwords.are_too_many(address):
            return "this address has sent too many wrong passwords"
        return ""

    def _make_room(self, address: str) -> None:
        """Give up the oldest socket that waits for a password, if there is no room for another one.

        A client that knows the password sends it at once, so it does not wait long enough to be the oldest.
        """
        waiting = [socket for socket in self._open if socket.is_waiting]
        of_address = [socket for socket in waiting if socket.address == address]
        if len(of_address) >= MOST_OF_AN_ADDRESS:
            self._give_up(of_address[0])
        elif len(waiting) >= MOST_OF_ALL:
            self._give_up(waiting[0])

    def _give_up(self, socket: "_Socket") -> None:
        self._say_once(socket.address, "too many others wait for a password, and it was the oldest")
        socket.waits_no_more.set()

    async def _serve(self, socket: "_Socket", scope: Scope) -> None:
        """Serve a socket until it ends, or is given up because it sends no password."""
        serving: asyncio.Future[None] = asyncio.ensure_future(
            self._application(scope, socket.receive, socket.send)
        )
        waits_no_more = asyncio.create_task(socket.waits_no_more.wait())
        try:
            await asyncio.wait(
                (serving, waits_no_more), timeout=SECONDS_TO_AUTHENTICATE, return_when=asyncio.FIRST_COMPLETED
            )
            if socket.has_spoken:
                # Prefect ends the socket unless the message is the password.
                await socket.served(serving)
            elif not serving.done():
                if socket.is_waiting:
                    self._say_once(
                        socket.address, f"it sent no password within {SECONDS_TO_AUTHENTICATE:g} s"
                    )
                await socket.close("No password was sent in time")
        finally:
            serving.cancel()
            waits_no_more.cancel()
            await asyncio.gather(serving, waits_no_more, return_exceptions=True)

    def _say_once(self, address: str, reason: str) -> None:
        """Print why a socket is refused or closed, once for each address and reason: thousands can follow."""
        if (address, reason) not in self._said and len(self._said) < MOST_OF_ALL:
            self._said.add((address, reason))
            say(f"server: closed a web socket from {address}: {reason}. More of them are not listed.")


class _Socket:
    """A socket that notices what its client sends first, and what Prefect answers.

    Attributes:
        has_spoken: True if the client has sent something.
        waits_no_more: Set when it has, or when the socket is given up.
    """

    def __init__(self, address: str, receive: Receive, send: Send, wrong_passwords: WrongPasswords) -> None:
        self.address = address
        self.has_spoken = False
        self.waits_no_more = asyncio.Event()
        self._receive = receive
        self._send = send
        self._wrong_passwords = wrong_passwords
        self._is_authenticated = False
        self._is_closed = False

    @property
    def is_waiting(self) -> bool:
        """True if the socket is open and its client has sent nothing."""
        return not self.waits_no_more.is_set()

    async def receive(self) -> Message:
        """Return the next message of the client; no password while its address has too many wrong ones."""
        message = await self._receive()
        if message["type"] == "websocket.receive" and not self._is_authenticated:
            self.has_spoken = True
            self.waits_no_more.set()
            if self._wrong_passwords.are_too_many(self.address):
                await self.close(TOO_MANY)
                return {"type": "websocket.disconnect", "code": POLICY_VIOLATION}
        return message

    async def send(self, message: Message) -> None:
        """Send a message of Prefect to the client; one that refuses a password is sent slowly."""
        if self._is_closed:
            return
        if message["type"] == "websocket.close":
            self._is_closed = True
            if self.has_spoken and not self._is_authenticated:
                await self._wrong_passwords.answer_slowly(self.address)
        await self._send(message)
        if not self._is_authenticated and _type_of(message) == AUTHENTICATED:
            self._is_authenticated = True

    async def served(self, serving: asyncio.Future[None]) -> None:
        """Wait until Prefect has served the socket."""
        try:
            await serving
        except Exception:
            if self._is_authenticated:
                raise
            # Whatever a stranger sends is no reason for a traceback.
            await self.close("The first message is not valid")

    async def close(self, reason: str) -> None:
        """Close the socket, unless it is closed."""
        if not self._is_closed:
            self._is_closed = True
            await self._send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": reason})


class RequestLimit:
    """An application that has only so many requests in work at a time, and any number of sockets."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._application = app
        self._limiter = asyncio.Semaphore(limit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on when there is room for it, and a socket at once."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        async with self._limiter:
            await self._application(scope, receive, send)


async def _refuse(receive: Receive, send: Send) -> None:
    """Refuse a socket before it is opened: its client gets status 403."""
    await receive()
    await send({"type": "websocket.close", "code": POLICY_VIOLATION})


def _type_of(message: Message) -> Any:
    """Return the type of a message of Prefect; ``None`` if it has none."""
    text = message.get("text")
    if message["type"] != "websocket.send" or not text:
        return None
    try:
        content = json.loads(text)
    except ValueError:
        return None
    return content.get("type") if isinstance(content, dict) else None
