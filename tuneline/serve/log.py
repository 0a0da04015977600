"""The log of a service: lines with time and address, and of faults of one kind one a minute."""

import logging

from starlette.types import Scope

from tuneline.core.runtime.terminal import say

LOG = logging.getLogger("tuneline.service")
SECONDS = 60
"""Seconds in which a kind of fault has one line: clients cause as many as they like."""


class ServiceLog(logging.Handler):
    """Prints records with their time; of warnings and errors of one line of code, one in ``SECONDS``."""

    def __init__(self) -> None:
        """Print times as ISO 8601 has them."""
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s serve: %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
        self._printed: dict[tuple[str, int], float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, unless its kind had a line a short time ago."""
        if record.levelno >= logging.WARNING:
            kind = (record.pathname, record.lineno)
            if record.created < self._printed.get(kind, 0.0) + SECONDS:
                return
            self._printed[kind] = record.created
        say(self.format(record), error=True)


def start_log() -> None:
    """Print what service and libraries log: all of the service, and the warnings of libraries."""
    logging.basicConfig(handlers=[ServiceLog()], level=logging.WARNING)
    LOG.setLevel(logging.INFO)


def address_of(scope: Scope) -> str:
    """Return the address of a client."""
    host, port = scope.get("client") or ("?", 0)
    return f"{host}:{port}"
