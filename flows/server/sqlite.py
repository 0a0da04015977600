"""A damaged SQLite file: it is named before Prefect's server ends in the middle of a migration."""

import shlex
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from sqlalchemy import make_url

from tuneline.messages import SET
from tuneline.runtime.errors import PERMANENT
from tuneline.runtime.terminal import say, visible

SECONDS_TO_LOOK = 10.0
"""Seconds to look for damage; what is not seen until then counts as intact."""
STEPS = 100_000
"""Steps of SQLite between two looks at the time."""
INTACT = "ok"


def refuse_damaged(url: str) -> None:
    """End the process, and say what to do, if a database is a damaged SQLite file.

    Raises:
        SystemExit: It is damaged; the status says that another start would end the same way.
    """
    address = make_url(url)
    if address.get_backend_name() != "sqlite" or not address.database:
        return
    file = Path(address.database)
    damage = damage_of(file)
    if damage is None:
        return

    aside = file.with_name(f"damaged-{file.name}")
    move = f"mkdir {shlex.quote(str(aside))} && mv {shlex.quote(str(file))}* {shlex.quote(str(aside))}/"
    say(
        visible(
            f"Prefect's database {file} is damaged ({damage}), and the server does not start with it. Set it"
            f" aside: {move}\n"
            "  The next start makes a new one. Lost are the runs with their logs, what was paused or changed"
            f" on the server's page, and the address of messages ({SET}). Schedules, settings, models,"
            " results and data are in git and DVC. A copy of the file from a backup brings the runs back;"
            " without one, `sqlite3 FILE .recover | sqlite3 NEW` of Debian's package sqlite3 brings back what"
            " can be read."
        ),
        error=True,
    )
    sys.exit(PERMANENT)


def damage_of(file: Path) -> str | None:
    """Return what is wrong with an SQLite file; ``None`` if it is intact, empty, missing or in use."""
    if not file.exists():
        return None
    until = time.monotonic() + SECONDS_TO_LOOK
    try:
        # Read only: SQLite would remove what it takes for the rest of a write.
        address = f"{file.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.set_progress_handler(lambda: time.monotonic() > until, STEPS)
            (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError:
        return None  # no time left, or no access: the server says why
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if result == INTACT else str(result)
