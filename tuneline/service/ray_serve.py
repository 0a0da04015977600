"""The service on Ray Serve: replicas of the application, in processes of their own on one machine or several.

Each replica has a model, a queue, limits and counters of its own, as if it were a service alone. Ray's proxy
gives each request to one of them.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuneline.core.machine import threads
from tuneline.engines.ray_tasks import ray_cluster
from tuneline.runtime.errors import StageError
from tuneline.runtime.terminal import say
from tuneline.service.application import Service, ServiceSettings, application
from tuneline.service.models import FolderSource, ModelSource
from tuneline.service.server import KEEP_ALIVE

APPLICATION = "tuneline"
"""Name of the application in Ray Serve."""
REPLICA_HEADER = "tuneline-replica"
"""Header of an answer that names the replica which answered."""
DRAIN_SECONDS = 30
"""Seconds that accepted requests have to end."""
WAIT_SECONDS = 20
"""Seconds after which replicas that do not start are said to wait: a cluster may still get machines."""
STARTS = 3
"""How often a replica is started that does not come up."""


class Replica:
    """A service in a process of Ray."""

    def __init__(self, settings: ServiceSettings) -> None:
        """Load the model, and start the workers.

        Raises:
            StageError: The model cannot be used.
        """
        from ray import serve

        self._service = Service(settings)
        self._name = serve.get_replica_context().replica_id.unique_id

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Return the application, whose answers name the replica."""
        app = application(self._service)

        async def named(scope: Scope, receive: Receive, send: Send) -> None:
            async def send_named(message: Message) -> None:
                if message["type"] == "http.response.start":
                    MutableHeaders(scope=message)[REPLICA_HEADER] = self._name
                await send(message)

            await app(scope, receive, send_named)

        return named


def serve_on_ray(settings: ServiceSettings, host: str, port: int, replicas: int) -> None:
    """Serve until interrupted; SIGINT and SIGTERM end what was accepted first.

    Args:
        settings: Settings of each replica; they are sent to it, the token among them.
        host: Address that Ray's proxy listens on: of the machine, or of each machine of a cluster.
        port: Its port.
        replicas: Number of replicas.

    Raises:
        ParamsError: Ray is not installed.
        StageError: The model cannot be used, or the cluster cannot be started or joined, or ends.
    """
    if port == 0:
        raise StageError("--port 0: the proxy of Ray takes no free port by itself.", "Name one.")
    if settings.workers is None:
        on_cluster = "RAY_ADDRESS" in os.environ
        settings = replace(settings, workers=1 if on_cluster else threads(replicas))
    settings = replace(
        settings,
        source=_absolute(settings.source),
        shadow=None if settings.shadow is None else _absolute(settings.shadow),
        disagreements=None if settings.disagreements is None else settings.disagreements.resolve(),
    )
    settings.source.load()  # an error here has one message; in a replica, pages of Ray

    # Ray sets handlers of its own when it starts, so these come after.
    with ray_cluster(replicas * (settings.workers or 1)), _ended_by_signals() as ended:
        _deploy(settings, host, port, replicas)
        try:
            if _wait_for_replicas(ended):
                address = f"http://{host}:{port}"
                say(f"serve: {settings.name} answers at {address} with {replicas} replicas", error=True)
            while not ended.wait(1.0):
                pass  # `ray_cluster` interrupts if the cluster ends
        finally:
            _drain()
    say("serve: ended; every accepted request has its answer", error=True)


def _absolute(source: ModelSource) -> ModelSource:
    """Return a source whose folder does not depend on the current one, which a worker of Ray has not."""
    if isinstance(source, FolderSource):
        return replace(source, folder=source.folder.resolve())
    repository = Path(source.repository)
    if repository.is_dir():
        return replace(source, repository=str(repository.resolve()))
    return source


@contextmanager
def _ended_by_signals() -> Iterator[threading.Event]:
    """Yield what SIGINT and SIGTERM set, instead of interrupting the block.

    SIGHUP, at which one process looks for another model, does nothing.
    """
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    former = {
        signal.SIGINT: signal.signal(signal.SIGINT, end),
        signal.SIGTERM: signal.signal(signal.SIGTERM, end),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    }
    try:
        yield ended
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _deploy(settings: ServiceSettings, host: str, port: int, replicas: int) -> None:
    """Start the proxies, and ask for the replicas.

    Raises:
        StageError: The proxies do not start.
    """
    from ray import serve
    from ray.serve.schema import LoggingConfig

    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    quiet = LoggingConfig(log_level="WARNING", enable_access_log=False)
    # Ray's annotations say that this is a decorator, as it is without a class.
    deployment: Any = serve.deployment(
        serve.ingress()(Replica),
        name="service",
        num_replicas=replicas,
        ray_actor_options={"num_cpus": settings.workers},
        # The queue of the replica decides what is too much, and says so (429). By default, Ray gives it five
        # requests at a time, and keeps the others itself without limit.
        max_ongoing_requests=settings.limits.waiting_rows,
        graceful_shutdown_wait_loop_s=0.2,
        graceful_shutdown_timeout_s=DRAIN_SECONDS,
        health_check_period_s=2.0,
        max_constructor_retry_count=STARTS,
    )
    options = {"host": host, "port": port, "keep_alive_timeout_s": KEEP_ALIVE}
    try:
        serve.start(proxy_location="EveryNode", http_options=options, logging_config=quiet)
        target = serve.RunTarget(deployment.bind(settings), APPLICATION, "/", quiet)
        serve.run_many([target], wait_for_applications_running=False)
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise StageError(f"Ray Serve does not start: {reason}", "Is the port free on each machine?") from None


def _wait_for_replicas(ended: threading.Event) -> bool:
    """Return True when the replicas answer, and False if the service is to end before.

    Raises:
        StageError: A replica cannot start.
    """
    from ray import serve
    from ray.serve.schema import ApplicationStatus

    began = time.monotonic()
    is_said = False
    while not ended.wait(0.2):
        application_status = serve.status().applications[APPLICATION]
        if application_status.status == ApplicationStatus.RUNNING:
            return True
        if application_status.status == ApplicationStatus.DEPLOY_FAILED:
            reason = application_status.message.strip()
            raise StageError(f"A replica does not start on Ray: {reason}", None)
        if time.monotonic() - began > WAIT_SECONDS and not is_said:
            is_said = True
            say("serve: replicas still wait: has the cluster a core for each of their --workers?", error=True)
    return False


def _drain() -> None:
    """End the replicas when they have answered what they have accepted, and then the proxies."""
    from ray import serve

    serve.delete(APPLICATION)
    serve.shutdown()  # type: ignore[no-untyped-call]
