"""A service on a port of this machine, for tests: uvicorn in a thread, with the real application."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import uvicorn

from tuneline.service.application import Service, ServiceSettings
from tuneline.service.models import FolderSource
from tuneline.service.server import server_config


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


@contextmanager
def running_service(folder, precision=None, **settings) -> Iterator[RunningService]:
    """Serve a folder of models until the block ends."""
    service = Service(ServiceSettings(FolderSource(folder, precision), **settings))
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
