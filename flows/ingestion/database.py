"""Rows of a database query, read in a transaction that cannot write, and streamed to a JSON Lines file."""

import json
import os
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, bindparam, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.types import NullType

from flows.settings.ingest import IngestSource
from tuneline.errors import DataError

ROWS = 10_000
"""Rows that are fetched at a time."""
PROGRESS = 100_000
"""Rows between two lines of progress."""
_SINCE = re.compile(r"(?<!:):since\b")


def run_query(source: IngestSource, sql: Path, target: Path, since: str | int | float | None, log: Callable[[str], None]) -> Any:
    """Write the rows of a query to a JSON Lines file.

    Args:
        source: The source.
        sql: File with one ``SELECT``; ``:since`` in it is a bind parameter.
        target: The file to write.
        since: Value of ``:since``.
        log: Called with lines of progress.

    Returns:
        The largest value of the column ``watermark``; ``since`` if there is none, or no row.

    Raises:
        DataError: The SQL file, the variable or the column ``watermark`` is missing.
    """
    if not sql.is_file():
        raise DataError(f"{source.query} is missing.", "It is the SQL file that ingest.sources in conf/flows.yaml names.")
    engine = _engine(source)
    largest: Any = None
    rows = 0
    with engine.connect() as connection, target.open("w", encoding="utf-8") as file:
        for values in _select(_read_only(connection), sql.read_text(encoding="utf-8"), since):
            if source.watermark:
                largest = _larger(source, largest, values)
            file.write(json.dumps({name: _plain(value) for name, value in values.items()}, ensure_ascii=False) + "\n")
            rows += 1
            if rows % PROGRESS == 0:
                log(f"{source.name}: {rows:,} rows fetched")
    return since if largest is None else _plain(largest)


def _engine(source: IngestSource) -> Engine:
    address = os.environ.get(str(source.database))
    if not address:
        hint = f"The worker needs it, with an SQLAlchemy URL: source {source.name} of ingest names it."
        raise DataError(f"The environment variable {source.database} is not set.", hint)
    url = make_url(address)
    if url.drivername in {"postgresql", "postgres"}:
        url = url.set(drivername="postgresql+psycopg")  # SQLAlchemy's default is another driver, which is not installed
    return create_engine(url, poolclass=NullPool, hide_parameters=True)


def _read_only(connection: Connection) -> Connection:
    """Make the transaction read-only where the database can; everywhere, it is never committed. Rows come in batches."""
    options: dict[str, Any] = {"stream_results": True, "max_row_buffer": ROWS}
    if connection.dialect.name == "postgresql":
        options["postgresql_readonly"] = True
    connection = connection.execution_options(**options)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA query_only = ON")
    return connection


def _select(connection: Connection, sql: str, since: Any) -> Any:
    statement = text(sql)
    if _SINCE.search(sql):
        # Without a type: the database takes the value for that of the column it is compared with.
        statement = statement.bindparams(bindparam("since", since, type_=NullType()))
    return connection.execute(statement).mappings()


def _larger(source: IngestSource, largest: Any, values: Any) -> Any:
    if source.watermark not in values:
        raise DataError(f"{source.query} gives no column {source.watermark!r} (watermark).", f"It gives {', '.join(values)}.")
    value = values[source.watermark]
    return value if largest is None or (value is not None and value > largest) else largest


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; times as ISO 8601 with a space, which every database reads."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return value.isoformat() if isinstance(value, date) else str(value)
