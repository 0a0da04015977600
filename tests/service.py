"""A service on a port of this machine, for tests: uvicorn in a thread, with the real application."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn

from tuneline.serve.application import Service, ServiceSettings
from tuneline.serve.models import FolderSource
from tuneline.serve.server import server_config
from tuneline.serve.text_classifier import TextClassifier


@dataclass(frozen=True)
class RunningService:
    """A service, its address, and a client."""

    service: Service
    address: str
    client: httpx.Client
    loop: asyncio.AbstractEventLoop

    def post(self, path, body, **headers):
        """Send a body as JSON."""
        return self.client.post(path, json=body, headers=headers)

    def wait_for(self, coroutine):
        """Run a coroutine in the loop of the service."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)


@dataclass(frozen=True)
class LoadedSource:
    """A model that is in memory, such as one that a test has made."""

    model: TextClassifier
    threads: int = 1

    def state(self):
        return self.model.version

    def load(self):
        return self.model


@contextmanager
def running_service(models, precision=None, **settings) -> Iterator[RunningService]:
    """Serve a folder of models, or a model, until the block ends."""
    source = FolderSource(models, precision) if isinstance(models, Path) else LoadedSource(models)
    service = Service(ServiceSettings(source, **settings))
    server = uvicorn.Server(server_config(service))
    loops = []

    def run():
        async def serve():
            loops.append(asyncio.get_running_loop())
            await server.serve()

        asyncio.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    while not server.started and thread.is_alive():
        thread.join(0.01)
    (listener,) = server.servers
    address = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        with httpx.Client(base_url=address, timeout=60) as client:
            yield RunningService(service, address, client, loops[0])
    finally:
        server.should_exit = True
        thread.join()
