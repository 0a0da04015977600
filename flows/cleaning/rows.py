"""What a cleaning removes, as rows of its table."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.promotion.registry import Registry
from flows.runs.repository import Repository
from flows.settings.retention import Retention

DAY = 86400.0
EXAMPLES = 3
"""Names in a row of the table; the log has all."""


@dataclass(frozen=True)
class Cleaning:
    """One cleaning.

    Attributes:
        registry: Registry of the clone that is cleaned.
        retention: What is kept.
        now: Unix time.
        log: Called with each line for the log.
        dry_run: Remove nothing.
        push: Remove branches from ``origin``, too.
    """

    registry: Registry
    retention: Retention
    now: float
    log: Callable[[str], None]
    dry_run: bool = False
    push: bool = False

    @property
    def repository(self) -> Repository:
        """The clone."""
        return self.registry.repository

    def before(self, days: float | None) -> float:
        """Return the Unix time that is so many days ago; what is older goes. Minus infinity to keep for ever."""
        return float("-inf") if days is None else self.now - days * DAY


@dataclass(frozen=True)
class Row:
    """What is removed of one kind.

    Attributes:
        what: The kind.
        names: What is removed.
        bytes: Size of it all.
        note: What is left although it is old, or other facts.
        count: Number of what is removed, if it has no names.
    """

    what: str
    names: Sequence[str] = ()
    bytes: int = 0
    note: str = ""
    count: int | None = None

    @property
    def number(self) -> int:
        """How many are removed."""
        return len(self.names) if self.count is None else self.count

    def __str__(self) -> str:
        """Return the row for a log: with all names."""
        text = f"{self.what}: {self.number}, {megabytes(self.bytes)} MB"
        return "; ".join(filter(None, (text, ", ".join(self.names), self.note)))


def megabytes(size: int) -> str:
    """Return a number of bytes in MB, with one digit."""
    return f"{size / 1e6:.1f}"


def as_markdown(rows: Sequence[Row], *, dry_run: bool) -> str:
    """Return the rows as a table, for Prefect's UI."""
    total = sum(row.bytes for row in rows)
    head = f"# {'Would free' if dry_run else 'Freed'} {megabytes(total)} MB"
    table = [f"| {row.what} | {row.number} | {megabytes(row.bytes)} | {_cell(row)} |" for row in rows]
    return "\n".join([head, "", "| what | number | MB | |", "|---|---|---|---|", *table])


def _cell(row: Row) -> str:
    more = row.number - EXAMPLES
    names = [f"`{name}`" for name in row.names[:EXAMPLES]] + ([f"and {more} more"] if row.names and more > 0 else [])
    return "; ".join(filter(None, (", ".join(names), row.note))).replace("|", "\\|")


def summary(rows: Sequence[Row]) -> str:
    """Return the rows in one line, for the state of a run."""
    found = [f"{row.number} {row.what}" for row in rows if row.number]
    notes = [f"{row.what}: {row.note}" for row in rows if row.note]
    return "; ".join([f"{megabytes(sum(row.bytes for row in rows))} MB: {', '.join(found) or 'nothing'}", *notes])


def size_of(paths: Iterable[Path]) -> int:
    """Return the bytes that removing files and folders frees; links to a file that stays are not counted."""
    files = (file for path in paths for file in ([path] if path.is_file() else path.rglob("*")))
    found = (file.lstat() for file in files if not file.is_dir() or file.is_symlink())
    return sum(status.st_size for status in found if status.st_nlink == 1)
