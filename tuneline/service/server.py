"""The server of one process: uvicorn with the application."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tuneline.runtime.errors import StageError
from tuneline.runtime.terminal import say
from tuneline.service.application import Service, ServiceSettings, application

GRACE = 30
"""Seconds that accepted requests have to end."""
KEEP_ALIVE = 10
"""Seconds that a connection may wait for its next request."""
LAST_ANSWERS = 0.4
"""Seconds after a signal in which clients that keep their connections learn that these end."""
LAST_ANSWER = (b"connection", b"close")
"""Header that tells a client to send its next request over another connection."""

BACKLOG = 2_048
"""Connections that wait to be accepted."""


def serve(settings: ServiceSettings, host: str, port: int) -> None:
    """Serve until interrupted; SIGINT and SIGTERM end what was accepted first.

    Raises:
        StageError: The model cannot be used, or the port is taken.
    """
    asyncio.run(_serve(settings, host, port))


class InterruptedServer(uvicorn.Server):
    """Uvicorn's server, for a program that tells its clients before it ends, and ends as it likes.

    Uvicorn closes connections whose client has no reason to expect it, and may have sent its next request
    already. It also raises the signal again when the last request has its answer, which would end the command
    as if it had failed.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the event loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End: tell the clients, then accept no more, and finish the rest."""
        headers = self.server_state.default_headers
        headers.append(LAST_ANSWER)
        for connection in self.server_state.connections:
            if isinstance(connection, H11Protocol) and connection.cycle is not None:
                connection.cycle.default_headers = headers
        await asyncio.sleep(LAST_ANSWERS)
        await super().shutdown(sockets)


def server_config(service: Service) -> uvicorn.Config:
    """Return how uvicorn serves the application; without a socket to listen on, it opens any free port."""
    return uvicorn.Config(
        application(service),
        port=0,
        http="h11",
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
    )


async def _serve(settings: ServiceSettings, host: str, port: int) -> None:
    service = Service(settings)
    listener = _listener(host, port)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, service.woken.set)
    address = f"http://{host}:{listener.getsockname()[1]}"
    say(f"serve: {settings.name} {service.model.current.version} answers at {address}", error=True)
    server = InterruptedServer(server_config(service))
    await server.serve(sockets=[listener])
    say("serve: ended; every accepted request has its answer", error=True)


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
