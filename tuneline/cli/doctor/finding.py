"""What a look at one thing finds."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One sentence on one thing.

    Attributes:
        level: ``error``: the line cannot run. ``warning``: it can, but worse than it could.
        what: What was found.
        hint: What to do about it.
    """

    level: Level
    what: str
    hint: str | None = None


def ok(what: str) -> Finding:
    """All is well."""
    return Finding("ok", what)


def warning(what: str, hint: str) -> Finding:
    """The line runs, but."""
    return Finding("warning", what, hint)


def error(what: str, hint: str) -> Finding:
    """The line cannot run."""
    return Finding("error", what, hint)
