"""Who may ask the service: the host, the token and the origin of a request, and headers of every answer."""

import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuneline.serve.log import LOG, address_of
from tuneline.serve.requests import LAST, RequestError, error_response

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Names of this machine, by which a service without a token is asked."""
PROBES = frozenset({"/health"})
"""What anybody may read: probes have no token, and ask by the address of a container."""
PAGE_FILES = {
    "/": ("tuneline.serve", "page.html", "text/html"),
    "/page.css": ("tuneline.serve", "page.css", "text/css"),
    "/page.js": ("tuneline.serve", "page.js", "text/javascript"),
    "/style.css": ("tuneline.checks", "style.css", "text/css"),
}
"""Package, file in its templates, and media type of what the page is made of.

It is read without a token, because a browser sends none for a page and its files.
"""
SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
}
"""Headers of every answer."""


@dataclass
class RequestGuard:
    """The part of the application that every request passes first.

    Without a token, the service is asked by the names of this machine only: a page of another site that gave
    its own name the address of this machine (DNS rebinding) is refused.

    Attributes:
        app: What answers requests that may pass.
        token: What clients send as ``Authorization: Bearer TOKEN``; ``None`` if none is needed.
        hosts: Names by which the service is asked; empty: with a token, any.
        seconds: Gets the time of each request, by the name of its endpoint and its status.
        most_bytes: Bytes of the bodies of all requests that have no answer yet.
        waiting_bytes: Number of them now.
    """

    app: ASGIApp
    token: str | None
    hosts: frozenset[str]
    seconds: Histogram
    most_bytes: int
    waiting_bytes: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 500
        own_bytes = 0
        started = time.perf_counter()

        async def receive_bounded() -> Message:
            nonlocal own_bytes
            message = await receive()
            received = len(message.get("body", b""))
            own_bytes += received
            self.waiting_bytes += received
            if self.waiting_bytes > self.most_bytes:
                headers = {"retry-after": "1", **LAST}
                raise RequestError(429, "Too many bytes wait. Try again.", headers)
            return message

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            problem = self._problem(scope["method"], scope["path"], Headers(scope=scope))
            answer = self.app if problem is None else error_response(problem)
            await answer(scope, receive_bounded, send_guarded)
        except Exception:
            LOG.exception("%s: a request failed", address_of(scope))
        finally:
            self.waiting_bytes -= own_bytes
            endpoint = getattr(scope.get("endpoint"), "__name__", "none")
            self.seconds.labels(endpoint, str(status)).observe(time.perf_counter() - started)

    def _problem(self, method: str, path: str, headers: Mapping[str, str]) -> RequestError | None:
        """Return why a request is refused; ``None`` if it may pass."""
        is_reading = method in {"GET", "HEAD"}
        if path in PROBES and is_reading:
            return None

        host = headers.get("host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        hosts = self.hosts
        if not hosts and self.token is None:
            hosts = LOOPBACK
        if hosts and name.lower() not in hosts:
            return RequestError(421, "This service is not asked by that name of a host.")
        if path in PAGE_FILES and is_reading:  # a POST to / asks the model
            return None

        origin = headers.get("origin")
        is_foreign = origin is not None and origin.partition("://")[2] != host
        if is_foreign or headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
            return RequestError(403, "Pages of other sites may not ask this service.")

        given = headers.get("authorization", "").encode("utf-8", "surrogateescape")
        if self.token is not None and not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
            message = "The request has no token, or another one."
            return RequestError(401, message, {"www-authenticate": "Bearer"})
        return None
