"""Prefect's server, with a password and only for the addresses it is served at: ``uvicorn --factory flows.server.api:create_app``.

``prefect server start`` lets everybody in and accepts requests from any web page: one in the browser of a user could create a
deployment, which a worker executes. This application is the same, except that it

- does not start without a password (``PREFECT_SERVER_API_AUTH_STRING``, ``USER:PASSWORD``);
- allows browsers to read answers only for pages of its own addresses (CORS);
- refuses requests for other host names: a page whose name is made to resolve to this machine (DNS rebinding) asks for its own name.

Its addresses are those in ``PREFECT_API_URL`` and, for browsers, ``PREFECT_UI_API_URL`` if that differs; and this machine's loopback.
"""

import os
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

from fastapi.middleware.trustedhost import TrustedHostMiddleware

APPLICATION = "flows.server.api:create_app"
AUTH, CLIENT_AUTH = "PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_AUTH_STRING"
"""Variables with the password: of the server, and of its clients."""
LOOPBACK = ("127.0.0.1", "localhost")


def create_app() -> TrustedHostMiddleware:
    """Return the application.

    Raises:
        SystemExit: No password is set.
    """
    hosts, origins = served_at(os.environ)
    os.environ["PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS"] = ",".join(origins)
    from prefect.server.api import server  # reads the settings when it is imported
    from prefect.settings import get_current_settings

    import flows.server.recipient  # noqa: F401 - the class of the block that sends notifications

    password = get_current_settings().server.api.auth_string
    if password is None or not password.get_secret_value():
        sys.exit(f"The server has no password. Set {AUTH} to USER:PASSWORD, and {CLIENT_AUTH} of its clients to the same.")
    # Around the application and not one of its middlewares: its automations send it requests themselves, for a host name of their own.
    return TrustedHostMiddleware(server.create_app(final=True), allowed_hosts=hosts, www_redirect=False)


def served_at(env: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the host names and the web origins of the server, from the environment that names its addresses."""
    hosts, origins = set(LOOPBACK), set()
    for address in (env.get("PREFECT_API_URL"), env.get("PREFECT_UI_API_URL")):
        url = urlsplit(address or "")
        if url.hostname:
            names = LOOPBACK if url.hostname in LOOPBACK else (url.hostname,)
            hosts |= {*names}
            origins |= {f"{url.scheme}://{name}" + (f":{url.port}" if url.port else "") for name in names}
    return sorted(hosts), sorted(origins)
