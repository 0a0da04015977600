"""Who may ask the service: the host, the token and the origin of a request, and headers of every answer."""

import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuneline.service.errors import RequestError
from tuneline.service.page import PAGE_FILES

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Names of this machine, by which a service without a token is asked."""
PROBES = frozenset({"/health", "/v2/health/live", "/v2/health/ready"})
"""What anybody may read: probes have no token, and ask by the address of a container."""
OPEN_FILES = frozenset(PAGE_FILES)
"""What can be read without a token: a browser sends none for a page and its files."""
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


@dataclass(frozen=True)
class RequestGuard:
    """The part of the application that every request passes first.

    Without a token, the service is asked by the names of this machine only: a page of another site that gave
    its own name the address of this machine (DNS rebinding) is refused.

    Attributes:
        app: What answers requests that may pass.
        token: What clients send as ``Authorization: Bearer TOKEN``; ``None`` if none is needed.
        hosts: Names by which the service is asked; empty: with a token, any.
        count: Gets the status of each answer.
    """

    app: ASGIApp
    token: str | None
    hosts: frozenset[str]
    count: Callable[[int], None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 500

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
            if problem is None:
                await self.app(scope, receive, send_guarded)
            else:
                await send_error(problem, send_guarded)
        finally:
            self.count(status)

    def _problem(self, method: str, path: str, headers: Mapping[str, str]) -> RequestError | None:
        """Return why a request is refused; ``None`` if it may pass."""
        is_reading = method in {"GET", "HEAD"}
        if path in PROBES and is_reading:
            return None
        problem = self._host_problem(headers)
        if problem is not None or (path in OPEN_FILES and is_reading):  # a POST to / asks the model
            return problem
        return _origin_problem(headers) or self._token_problem(headers)

    def _host_problem(self, headers: Mapping[str, str]) -> RequestError | None:
        """Return why the name by which the service is asked is refused."""
        host = headers.get("host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        hosts = self.hosts or (LOOPBACK if self.token is None else frozenset())
        if hosts and name.lower() not in hosts:
            return RequestError(421, "This service is not asked by that name of a host.", "Validation")
        return None

    def _token_problem(self, headers: Mapping[str, str]) -> RequestError | None:
        """Return why the token of a request is refused."""
        if self.token is None:
            return None
        given = headers.get("authorization", "")
        expected = f"Bearer {self.token}"
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode()):
            bearer = {"www-authenticate": "Bearer"}
            return RequestError(401, "The request has no token, or another one.", "Validation", bearer)
        return None


def _origin_problem(headers: Mapping[str, str]) -> RequestError | None:
    """Return why a request of a page is refused: the page is of another site."""
    origin = headers.get("origin")
    is_foreign = origin is not None and origin.partition("://")[2] != headers.get("host")
    if is_foreign or headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        return RequestError(403, "Pages of other sites may not ask this service.", "Validation")
    return None


async def send_error(error: RequestError, send: Send) -> None:
    """Send the answer to a request that gets no predictions."""
    body = error_body(error)
    headers = {"content-type": "application/json", "content-length": str(len(body)), **error.headers}
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def error_body(error: RequestError) -> bytes:
    """Return the body of that answer."""
    content: dict[str, Any] = {"error": error.message, "error_type": error.error_type}
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
