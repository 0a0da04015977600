"""Connections that do nothing: they are closed before they use up what the server can have open.

uvicorn closes a connection that sends nothing after its first answer. One that never completes a request
stays open for ever, and so does one that does not read its answer; a thousand of them, and nobody else can
connect. A request in work and an open web socket (flows/server/sockets.py) are left alone.
"""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS_FOR_A_REQUEST = 10.0
"""Seconds until the head of a request is complete, from the connection or from the last answer on."""
SECONDS_TO_READ = 30.0
"""Seconds that a client may leave unread what the server has sent."""
MOST_IDLE = 256
"""Connections without a request at a time; the oldest is closed."""


class Protocol(H11Protocol):
    """HTTP/1.1 of uvicorn, for clients that are slow on purpose."""

    _idle: ClassVar[dict["Protocol", asyncio.TimerHandle]] = {}
    """Connections of this process without a request, the oldest first, with the end of their time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._unread: asyncio.TimerHandle | None = None
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        """Wait no more when the head of a request is complete, or a web socket opens."""
        super().data_received(data)
        if self._is_in_work() or self not in self.connections:
            self._wait_no_more()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it has come already."""
        super().on_response_complete()
        if not self._is_in_work() and not self.transport.is_closing():
            self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._wait_no_more()
        self._read()

    def pause_writing(self) -> None:
        """Give the client some time to read."""
        super().pause_writing()
        self._unread = self.loop.call_later(SECONDS_TO_READ, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        self._read()

    def _is_in_work(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_request(self) -> None:
        self._wait_no_more()
        self._idle[self] = self.loop.call_later(SECONDS_FOR_A_REQUEST, self._close)
        if len(self._idle) > MOST_IDLE:
            next(iter(self._idle))._close()

    def _wait_no_more(self) -> None:
        timer = self._idle.pop(self, None)
        if timer is not None:
            timer.cancel()

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _close(self) -> None:
        self._wait_no_more()
        self.transport.abort()
