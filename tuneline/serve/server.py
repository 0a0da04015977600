"""The server of one process: uvicorn with the application."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator

import uvicorn

from tuneline.core.runtime.errors import StageError
from tuneline.serve.application import Service, ServiceSettings, application
from tuneline.serve.log import LOG, start_log

GRACE = 30
"""Seconds that accepted requests have to end."""
KEEP_ALIVE = 10
"""Seconds that a connection may wait for its next request."""


def serve(settings: ServiceSettings, host: str, port: int) -> None:
    """Serve until interrupted; SIGINT and SIGTERM end what was accepted first.

    Raises:
        StageError: The model cannot be used, or the port is taken.
    """
    start_log()
    asyncio.run(_serve(settings, host, port))


class InterruptedServer(uvicorn.Server):
    """Uvicorn's server, for a program that ends as it likes.

    Uvicorn raises the signal again when the last request has its answer, which would end the command as if
    it had failed.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the event loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


def server_config(service: Service) -> uvicorn.Config:
    """Return how uvicorn serves the application; without a socket to listen on, it opens any free port."""
    return uvicorn.Config(
        application(service),
        port=0,
        http="h11",  # also where httptools is installed: one parser, which the tests know
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
    )


async def _serve(settings: ServiceSettings, host: str, port: int) -> None:
    service = Service(settings)
    listener = _listener(host, port)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, service.woken.set)
    address = f"http://{host}:{listener.getsockname()[1]}"
    LOG.info("%s %s answers at %s", settings.name, service.model.current.version, address)
    await InterruptedServer(server_config(service)).serve(sockets=[listener])
    LOG.info("ended")


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
        listener.listen()  # who asks now is answered as soon as the application runs
    except OSError as error:
        listener.close()
        problem = f"--host {host} --port {port}: it cannot be listened on: {error.strerror}."
        raise StageError(problem, "Name another port; 0 takes a free one.") from None
    return listener
