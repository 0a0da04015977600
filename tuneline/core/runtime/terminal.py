"""Safe printing of text, lists and progress: control characters in texts and file names appear as codes.

Pages and model cards show them as the same codes (``tuneline.checks.page.visible_value``).
"""

import os
import re
import select
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 and C1 control characters except tabs and line ends; characters that reverse the direction of writing
(bidirectional embeddings, overrides and isolates); surrogates, which stand for bytes of a file name that are
not UTF-8.

The marks U+200E, U+200F and U+061C stay: Arabic and Hebrew texts need them beside punctuation, and a mark
moves no more of what follows than a letter of these scripts does. The joiners U+200C and U+200D stay: they
shape letters and emoji.
"""


def visible(text: str) -> str:
    r"""Return the text with its control characters as codes, such as ``\x1b`` for the escape character."""
    return CONTROL_CHARACTERS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


# A password may contain an unencoded slash, and git prints it all the same: after a colon, all up to the last
# @ is taken for one.
_USERINFO = re.compile(r"(?<=://)(?:[^\s/'\"]*:[^\s'\"]*|[^\s/'\"]*)@")


def redacted(text: str) -> str:
    """Return a text with ``***`` in place of user names and passwords in addresses: ``https://***@host/path``."""
    return _USERINFO.sub("***@", text)


def say(text: str, *, error: bool = False) -> None:
    """Print a text as one or several lines, to standard error if ``error``.

    Nothing else prints, except ``tuneline.cli.console``.
    """
    print(visible(text), file=sys.stderr if error else sys.stdout, flush=True)


NO_MEMORY = (
    "annot allocate memory",
    "can't allocate memory",
    "can't start new thread",
    "failed to map segment",
)
"""What errors of the system, of torch, and of the import of a library say when memory ran out."""


def say_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an error that nothing else has explained, as Python does, unless a person or a limit caused it.

    A process whose output nobody reads any more ends without a word.

    ``sys.excepthook`` of stages and commands from their first import on: importing libraries takes seconds,
    and most of their memory.
    """
    if issubclass(kind, BrokenPipeError) and discard_unread_output():
        return
    if issubclass(kind, KeyboardInterrupt):
        say("interrupted; no partial outputs are left.", error=True)
    elif issubclass(kind, MemoryError) or any(text in str(error) for text in NO_MEMORY):
        hint = "Raise its limit (`ulimit -v`, or that of the container), or end other programs."
        say(f"memory ran out: {str(error) or kind.__name__}. {hint}", error=True)
    else:
        say("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"), error=True)


def discard_unread_output() -> bool:
    """Discard the rest of the output if its reader has stopped, as ``head`` does; return False if none has.

    Python would write to the pipe once more when the process ends, and fail again.
    """
    is_closed = False
    for stream in (sys.stdout, sys.stderr):
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        if any(event & select.POLLERR for _, event in poll.poll(0)):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            is_closed = True
    return is_closed


def explain_exceptions() -> None:
    """Make this process print its errors with ``say_exception``."""
    sys.excepthook = say_exception


QUIET_SECONDS = 2.0
"""Seconds until a long step is shown."""
LINE_SECONDS = 30.0
"""Seconds between two lines about a step."""


class Progress:
    """Progress of a step.

    The step's loop changes these values; a thread shows them, so that a single long call is shown, too.

    Attributes:
        total: Value of ``done`` at the end; ``None`` if unknown.
        unit: What ``done`` counts; empty to show only the percentage.
        done: Amount of work done.
    """

    _shown: "Progress | None" = None

    def __init__(self, title: str, total: float | None = None, unit: str = "rows") -> None:
        self.title = title
        self.total = total
        self.unit = unit
        self.done: float = 0
        self.detail = ""
        self._started = time.monotonic()
        self._ended = threading.Event()

    def advance(self, number: int) -> None:
        """Add to ``done``."""
        self.done += number

    def __str__(self) -> str:
        parts = [self.detail] if self.detail else []
        if self.total:
            parts.append(f"{min(self.done / self.total, 1):.0%}")
        if self.unit and self.done:
            parts.append(f"{self.done:,.0f} {self.unit}")
        parts.append(f"{time.monotonic() - self._started:.0f} s")
        separator = ": " if len(parts) > 1 else ", "
        return f"{self.title}{separator}{', '.join(parts)}"

    def show(self) -> None:
        """Print a line about the step now and then, until it has ended."""
        if self._ended.wait(QUIET_SECONDS):
            return
        say(str(self), error=True)
        while not self._ended.wait(LINE_SECONDS):
            say(str(self), error=True)

    def end(self) -> None:
        """Stop showing the step."""
        self._ended.set()


@contextmanager
def progress(title: str, total: float | None = None, unit: str = "rows") -> Iterator[Progress]:
    """Show the progress of a block that takes more than ``QUIET_SECONDS``.

    A block inside another one is not shown.

    It has the arguments of ``Progress``; the title begins with the name of the stage or command.
    """
    step = Progress(title, total, unit)
    if Progress._shown is not None:
        yield step
        return
    thread = threading.Thread(target=step.show, daemon=True)
    Progress._shown = step
    thread.start()
    try:
        yield step
    finally:
        step.end()
        thread.join()
        Progress._shown = None


def phase(detail: str) -> None:
    """Set the detail of the step that is shown, if there is one."""
    if Progress._shown is not None:
        Progress._shown.detail = detail


def first_of(texts: Sequence[str], limit: int) -> str:
    """Join the first texts by commas; those after ``limit`` are counted instead of named."""
    joined = ", ".join(texts[:limit])
    if len(texts) > limit:
        joined += f" and {len(texts) - limit:,} more"
    return joined


def listed(names: Iterable[str], limit: int = 12) -> str:
    """Join quoted names; those after ``limit`` are counted instead of named."""
    return first_of([repr(name) for name in names], limit)


def first_lines(lines: Sequence[str], limit: int, total: int | None = None) -> list[str]:
    """Return the first lines, and a last one that counts those after ``limit``.

    Args:
        lines: All lines, or only the first ones of ``total``.
        limit: Number of lines that are shown.
        total: Number of all lines, if ``lines`` are not all.
    """
    shown = list(lines[:limit])
    if total is None:
        total = len(lines)
    if total > len(shown):
        shown.append(f"and {total - len(shown):,} more")
    return shown
