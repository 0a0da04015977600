"""The server of one process: uvicorn with the application."""

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import Iterator

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tuneline.core.runtime.errors import StageError
from tuneline.serve.application import Service, ServiceSettings, application
from tuneline.serve.log import LOG, start_log

GRACE = 30
"""Seconds that accepted requests have to end."""
KEEP_ALIVE = 10
"""Seconds that a connection may wait for its next request."""
LAST_ANSWERS = 0.4
"""Seconds after a signal in which clients that keep their connections learn that these end."""
LAST_ANSWER = (b"connection", b"close")
"""Header that tells a client to send its next request over another connection."""

CONNECTIONS = 4_096
"""Connections at a time, if there are as many file descriptors."""
BACKLOG = 2_048
"""Connections that wait to be accepted, and that are accepted at once, likewise."""


def serve(settings: ServiceSettings, host: str, port: int) -> None:
    """Serve until interrupted; SIGINT and SIGTERM end what was accepted first.

    Raises:
        StageError: The model cannot be used, or the port is taken.
    """
    start_log()
    asyncio.run(_serve(settings, host, port))


class BoundedConnection(H11Protocol):
    """A connection, of which there are no more than file descriptors.

    A client may end its side after its request, as ``nc -N`` does, and gets its answer. The system does not
    tell such a client from one that left, so that the answer to one that left is computed, too.
    """

    is_ended = False
    """True if the client sends no more."""

    def is_answering(self) -> bool:
        """Return True if there is a whole request without its answer."""
        cycle = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; with too many, close all others whose request has not arrived."""
        super().connection_made(transport)
        if len(self.connections) <= min(CONNECTIONS, _files() // 2):
            return
        LOG.warning("%d connections: those without a whole request are closed", len(self.connections))
        waiting = []
        for connection in self.connections:
            if isinstance(connection, BoundedConnection) and not connection.is_answering():
                waiting.append(connection)
        if len(waiting) > 1:
            waiting.remove(self)
        for connection in waiting:
            connection.transport.abort()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep a connection until its requests are answered."""
        self.is_ended = True
        return self.is_answering()

    def on_response_complete(self) -> None:
        """Close a connection after its last answer."""
        super().on_response_complete()
        if self.is_ended and not self.is_answering():
            self.transport.close()


class InterruptedServer(uvicorn.Server):
    """Uvicorn's server, for a program that tells its clients before it ends, and ends as it likes.

    Uvicorn closes connections whose client has no reason to expect it, and may have sent its next request
    already. It also raises the signal again when the last request has its answer, which would end the command
    as if it had failed.
    """

    def __init__(self, service: Service) -> None:
        """Serve a service."""
        super().__init__(server_config(service))
        self._service = service

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the event loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End: tell probes and clients, then accept no more connections, and finish the rest."""
        self._service.is_ready = False
        headers = self.server_state.default_headers
        headers.append(LAST_ANSWER)
        for connection in self.server_state.connections:
            if isinstance(connection, H11Protocol) and connection.cycle is not None:
                connection.cycle.default_headers = headers
        await asyncio.sleep(LAST_ANSWERS)

        # Clients whose connections wait take them for accepted, and have yet to send their requests.
        waiting = []
        for listener in sockets or ():
            with contextlib.suppress(BlockingIOError):
                while True:
                    waiting.append(listener.accept()[0])
        for server in self.servers:
            server.close()
        for accepted in waiting:
            await asyncio.get_running_loop().connect_accepted_socket(self._connection, accepted)
        await asyncio.sleep(LAST_ANSWERS)
        await super().shutdown(sockets)

    def _connection(self) -> BoundedConnection:
        return BoundedConnection(self.config, self.server_state, self.lifespan.state)


def server_config(service: Service) -> uvicorn.Config:
    """Return how uvicorn serves the application; without a socket to listen on, it opens any free port."""
    return uvicorn.Config(
        application(service),
        port=0,
        http=BoundedConnection,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        backlog=min(BACKLOG, _files() // 8),
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
    )


def _files() -> int:
    """Return how many file descriptors this process may have."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


async def _serve(settings: ServiceSettings, host: str, port: int) -> None:
    service = Service(settings)
    listener = _listener(host, port)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, service.woken.set)
    address = f"http://{host}:{listener.getsockname()[1]}"
    LOG.info("%s %s answers at %s", settings.name, service.model.current.version, address)
    await InterruptedServer(service).serve(sockets=[listener])
    LOG.info("ended; every accepted request has its answer")


def _listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        StageError: The port is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol: asyncio sets TCP_NODELAY by it, without which an answer waits for 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)  # who asks now is answered as soon as the application runs
    except OSError as error:
        listener.close()
        problem = f"--host {host} --port {port}: it cannot be listened on: {error.strerror}."
        raise StageError(problem, "Name another port; 0 takes a free one.") from None
    return listener
