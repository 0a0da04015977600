"""Prefect's server, with a password and only for the addresses it is served at.

``python -m flows.server`` runs it (flows/server/__main__.py).

``prefect server start`` lets everybody in and accepts requests from any web page: one in the browser of a
user could create a deployment, which a worker executes. This application is the same, except that it

- does not start without a password (``PREFECT_SERVER_API_AUTH_STRING``, ``USER:PASSWORD``);
- allows browsers to read answers only for pages of its own addresses (CORS);
- refuses requests for other host names: a page whose name is made to resolve to this machine (DNS rebinding)
  asks for its own name;
- opens no web socket for other pages, and closes one without the password (flows/server/sockets.py);
- answers wrong passwords slowly, and counts them in its log (flows/server/passwords.py);
- removes old runs (``retention.prefect_days`` in ``conf/flows.yaml``), unless Prefect's own settings say
  otherwise.
- has no page of its API (``/docs``), which would answer without the password and load scripts from elsewhere;
- looks after runs that died (flows/server/crashes.py);
- says that it is ready only if its database takes a write (flows/server/ready.py) and schedules have their
  next runs (flows/server/schedules.py);
- asks clients to wait while its database is away or has no room (flows/server/outages.py);
- corrects what was written while the clock was ahead (flows/server/clock.py);
- does not start with a damaged file of SQLite (flows/server/sqlite.py);
- writes to SQLite without losing what it cannot write at once (flows/server/api.py).

Its addresses are those in ``PREFECT_API_URL`` and, for browsers, ``PREFECT_UI_API_URL`` if that differs; and
this machine's loopback.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
from fastapi import FastAPI
from fastapi.middleware import Middleware
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.routing import APIRoute, Mount
from sqlalchemy.ext.asyncio import AsyncSession, AsyncSessionTransaction

from tuneline.runtime.errors import ParamsError
from tuneline.runtime.terminal import visible
from tuneline.settings import load_settings

if TYPE_CHECKING:
    from flows.server.outages import Outages
    from flows.server.schedules import Schedules

VACUUM = "PREFECT_SERVER_SERVICES_DB_VACUUM"
"""Start of the names of the settings of the service that removes old runs."""
KEEP_EVENTS = "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_MAX_FLUSH_RETRIES"
"""Setting of the attempts to write an event, after which Prefect drops it; meanwhile it waits in memory."""
ATTEMPTS = 100_000
"""Attempts every few seconds: the database may be away for days."""
ROOT = Path(__file__).parents[2]
LOOPBACK = ("127.0.0.1", "localhost")


def create_app(restart: Callable[[], None]) -> TrustedHostMiddleware:
    """Return the application.

    Args:
        restart: Ends the server in such a way that it starts again. It is called when the clock was set back.
    """
    # settings, before Prefect reads them
    hosts, origins = served_at(os.environ)
    os.environ["PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS"] = ",".join(origins)
    try:
        settings = load_settings(ROOT)
    except ParamsError as error:
        sys.exit(visible(str(error)))
    for name, value in vacuum(settings.retention.prefect_days).items():
        os.environ.setdefault(name, value)
    os.environ.setdefault(KEEP_EVENTS, str(ATTEMPTS))
    from prefect.server.api import server  # reads the settings when it is imported
    from prefect.server.database import provide_database_interface
    from prefect.settings import get_current_settings

    import flows.server.recipient  # noqa: F401 - the class of the block that sends notifications
    from flows.server.outages import Outages
    from flows.server.passwords import PasswordGuard, WrongPasswords, compare_as_bytes
    from flows.server.schedules import Schedules
    from flows.server.sockets import SocketGuard
    from flows.server.sqlite import refuse_damaged

    password = get_current_settings().server.api.auth_string
    if password is None or not password.get_secret_value():
        variables = (
            "PREFECT_SERVER_API_AUTH_STRING to USER:PASSWORD, and PREFECT_API_AUTH_STRING of its clients to"
            " the same"
        )
        sys.exit(f"The server has no password. Set {variables}.")

    refuse_damaged(provide_database_interface().database_config.connection_url)

    # the application
    lock_at_begin()
    compare_as_bytes()
    application = server.create_app(final=True)
    _limit_requests_only(application)
    _remove_docs(application)
    schedules = Schedules(provide_database_interface())
    _answer_ready(application, schedules)
    outages = Outages()
    outages.answer_requests(application)
    outages.keep_task_runs()
    _watch(application, schedules, outages, restart, password.get_secret_value())
    # Around the application and not one of its middlewares: its automations send it requests themselves, for
    # a host name of their own.
    wrong_passwords = WrongPasswords()
    guarded = SocketGuard(PasswordGuard(application, wrong_passwords), origins, wrong_passwords)
    return TrustedHostMiddleware(guarded, allowed_hosts=hosts, www_redirect=False)


def _limit_requests_only(application: FastAPI) -> None:
    """Replace Prefect's limit of requests to SQLite by one that counts requests with the password only.

    Prefect's limit counts open sockets and the files of its page, too (flows/server/sockets.py).
    """
    from prefect.server.api.server import RequestLimitMiddleware

    from flows.server.sockets import RequestLimit

    limits = [
        middleware
        for middleware in application.user_middleware
        if middleware.cls == RequestLimitMiddleware  # type: ignore[comparison-overlap]
    ]
    for middleware in limits:
        application.user_middleware.remove(middleware)
        for mount in application.routes:
            if isinstance(mount, Mount) and mount.name == "api" and isinstance(mount.app, FastAPI):
                # The last one is called last, after the password was compared.
                limit = Middleware(RequestLimit, **middleware.kwargs)  # type: ignore[arg-type]
                mount.app.user_middleware.append(limit)


def _remove_docs(application: FastAPI) -> None:
    """Remove the pages that FastAPI generates, and the schema that they read.

    The applications that are mounted in this one have the same pages.
    """
    removed = {
        application.openapi_url,
        application.docs_url,
        application.redoc_url,
        application.swagger_ui_oauth2_redirect_url,
    }
    mounted = [route.app for route in application.routes if isinstance(route, Mount)]
    for app in (application, *mounted):
        if isinstance(app, FastAPI):
            app.router.routes[:] = [
                route for route in app.routes if getattr(route, "path", None) not in removed
            ]


def _answer_ready(application: FastAPI, schedules: "Schedules") -> None:
    """Answer ``/api/ready`` instead of Prefect, which lets that path in without the password."""
    from prefect.server.database import provide_database_interface

    from flows.server.ready import Readiness

    readiness = Readiness(provide_database_interface().database_config, lambda: schedules.problem)
    for mount in application.routes:
        if isinstance(mount, Mount) and mount.name == "api" and isinstance(mount.app, FastAPI):
            route = APIRoute("/ready", readiness.answer, methods=["GET"], response_model=None)
            # The first route that matches answers.
            mount.app.router.routes.insert(0, route)


def _watch(
    application: FastAPI,
    schedules: "Schedules",
    outages: "Outages",
    restart: Callable[[], None],
    password: str,
) -> None:
    """Watch runs, schedules, the clock and the database as long as the application runs."""
    from prefect.client.orchestration import PrefectClient
    from prefect.server.database import provide_database_interface

    from flows.server import clock, crashes
    from flows.server.notifications import report
    from flows.server.recipient import deliveries
    from flows.server.schedules import watch as watch_schedules

    prefect_lifespan = application.router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        outages.filter_logs()
        # In this process, and not by the server's address, which may be the address of a proxy.
        inside = {"transport": httpx.ASGITransport(app=application)}
        async with (
            prefect_lifespan(app) as state,
            PrefectClient("http://127.0.0.1/api", auth_string=password, httpx_settings=inside) as client,
        ):
            deliveries.report = partial(report, client)
            await clock.correct(provide_database_interface(), client)
            watching = [
                asyncio.create_task(crashes.watch(client)),
                asyncio.create_task(watch_schedules(schedules)),
                asyncio.create_task(clock.watch(restart)),
            ]
            try:
                yield state
            finally:
                outages.end()
                for task in watching:
                    task.cancel()

    application.router.lifespan_context = lifespan


def vacuum(days: float | None) -> dict[str, str]:
    """Return the settings with which Prefect removes runs that ended so many days ago, with their logs.

    ``None`` keeps them for ever. Prefect removes events after 7 days by itself
    (``PREFECT_SERVER_EVENTS_RETENTION_PERIOD``).
    """
    if days is None:
        return {}
    return {f"{VACUUM}_ENABLED": "events,flow_runs", f"{VACUUM}_RETENTION_PERIOD": str(round(days * 86400))}


def served_at(env: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the host names and the web origins of the server, from the addresses in the environment."""
    hosts = set(LOOPBACK)
    origins = set()
    for address in (env.get("PREFECT_API_URL"), env.get("PREFECT_UI_API_URL")):
        url = urlsplit(address or "")
        if not url.hostname:
            continue
        port = f":{url.port}" if url.port else ""
        names = LOOPBACK if url.hostname in LOOPBACK else (url.hostname,)
        for name in names:
            hosts.add(name)
            origins.add(f"{url.scheme}://{name}{port}")
    return sorted(hosts), sorted(origins)


def lock_at_begin() -> None:
    """Make every transaction of the server lock the database when it begins.

    Then it waits its turn, for up to a minute. A transaction that locks at its first write fails at once if
    another one has written since it began.

    Only its own session locks. While it is open, Prefect may read in another one (the event of a paused work
    queue): that would wait for it, and it for that.
    """
    from prefect.server.database.configurations import SQLITE_BEGIN_MODE, AioSqliteConfiguration

    @contextlib.asynccontextmanager
    async def begin_transaction(
        _self: AioSqliteConfiguration, session: AsyncSession, **_deferred: bool
    ) -> AsyncIterator[AsyncSessionTransaction]:
        async with session.begin() as transaction:
            mode = SQLITE_BEGIN_MODE.set("IMMEDIATE")
            try:
                await session.connection()  # begins
            finally:
                SQLITE_BEGIN_MODE.reset(mode)
            yield transaction

    AioSqliteConfiguration.begin_transaction = begin_transaction  # type: ignore[assignment, method-assign]
