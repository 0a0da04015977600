"""``data/ingested.json``: what was read, from where, and what became of the rows.

Git tracks it, with the data it tells of.

It contains no texts, and of URLs neither passwords nor what follows a ``?``.
"""

from collections.abc import Sequence
from pathlib import Path

from tuneline.core.records import OMITTED, Record

LEDGER = Path("data/ingested.json")
REFUSED_BATCHES = "refused"
"""Folder in ``.dvc/tmp/flows/`` for batches that failed the data checks."""
PLACES = 20
"""Conflicts of one file that are listed; all are counted."""


class Read(Record):
    """A file, or the result of a query, that was read."""

    name: str
    """Name of the file, URL, or SQL file."""
    sha256: str
    etag: str | None = OMITTED
    """Version of a URL, where its server gives one."""


class Ingested(Record):
    """Rows of one source in one commit."""

    date: str
    """Time of the run, UTC."""
    source: str
    batch: str | None = OMITTED
    """The file with the new rows."""
    files: Sequence[Read] = ()
    """What was read."""
    added: int = 0
    duplicates: int = 0
    """Rows that the data had."""
    conflicts: int = 0
    """Rows whose key or texts the data have with another label; left out."""
    held_out: int = 0
    """Rows that are in validation or test; left out."""
    incomplete: int = 0
    """Rows without a label; left out."""
    bad: int = 0
    """Rows that cannot be read or have no text (``data.bad_rows: skip``); left out."""
    unmatched: int = 0
    """Late labels whose text was not found; read again by the next run."""
    conflicting: Sequence[str] = ()
    """File and line of conflicts."""
    contradictions: str | None = OMITTED
    """Hash of the conflicting rows and their labels: the same rows are reported once."""
    watermark: str | int | float | None = OMITTED
    """Value of ``:since`` in the next run of a query."""
    revision: str | None = OMITTED
    """Commit of a data set of the hub."""

    @property
    def counts(self) -> str:
        """The counts that are not zero, in words."""
        numbers = {
            "duplicate": self.duplicates,
            "conflicting": self.conflicts,
            "held out": self.held_out,
            "incomplete": self.incomplete,
            "bad": self.bad,
            "unmatched": self.unmatched,
        }
        words = [f"{self.added:,} new"]
        words += [f"{number:,} {name}" for name, number in numbers.items() if number]
        return ", ".join(words)


class Ledger(Record):
    """The whole file."""

    entries: Sequence[Ingested] = ()

    @classmethod
    def of(cls, root: Path) -> "Ledger":
        """Read the ledger of a checkout; an empty one if there is none."""
        return cls.read_if_exists(root / LEDGER, f"Restore it: `git checkout -- {LEDGER}`.") or cls()

    def plus(self, entries: Sequence[Ingested]) -> "Ledger":
        """Return the ledger with more entries."""
        return self.model_copy(update={"entries": list(self.entries) + list(entries)})

    def etags(self, source: str) -> dict[str, str | None]:
        """Return the versions of the URLs that a source has read, by URL; ``None`` to read a URL again."""
        etags = {}
        for entry in self.entries:
            if entry.source == source:
                # A text that was not found may have been scored since: its label is read again.
                for read in entry.files:
                    etags[read.name] = None if entry.unmatched else read.etag
        return etags

    def knows_conflicts_of(self, entry: Ingested) -> bool:
        """Return True if an entry has no conflicts, or the same as the last conflicts of its source."""
        if entry.contradictions is None:
            return True
        for earlier in reversed(self.entries):
            if earlier.source == entry.source and earlier.contradictions:
                return earlier.contradictions == entry.contradictions
        return False

    def watermark(self, source: str) -> str | int | float | None:
        """Return the watermark of a source; ``None`` if it has none yet."""
        for entry in reversed(self.entries):
            if entry.source == source and entry.watermark is not None:
                return entry.watermark
        return None
