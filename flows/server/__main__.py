"""Prefect's server with a password: ``python -m flows.server --host ADDRESS --port PORT``.

flows/server/api.py says what it needs, and what it does that ``prefect server start`` does not. A server
whose clock was set back starts again in the same process (flows/server/clock.py).
"""

import argparse
import os
import sys

import uvicorn

from flows.server.api import create_app
from tuneline.service.connections import Protocol

GRACE = 10
"""Seconds that requests in work have to end."""


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m flows.server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=4200, help="its port (default: %(default)s)")
    options = parser.parse_args()

    starts_again = False

    def restart() -> None:
        nonlocal starts_again
        starts_again = True
        server.should_exit = True

    config = uvicorn.Config(
        create_app(restart),
        host=options.host,
        port=options.port,
        http=Protocol,
        loop="asyncio",  # the one that it was tested with, also where Ray's packages bring another
        log_level="warning",
        timeout_graceful_shutdown=GRACE,
    )
    server = uvicorn.Server(config)
    server.run()
    if starts_again:
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - the command that started this process
    if not server.started:
        sys.exit(1)


if __name__ == "__main__":
    main()
