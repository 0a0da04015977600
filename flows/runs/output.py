"""Output of the programs of a run: complete lines for the log, with progress bars thinned out."""

import re
import time
from collections import deque
from collections.abc import Callable

from tuneline.readers.urls import redacted
from tuneline.terminal import visible

ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
MAX_LENGTH = 2000
"""Characters of a line that are kept. Prefect rejects log records of a megabyte."""


class OutputLines:
    """Splits a stream of bytes into lines and passes each on when it is complete.

    A progress bar rewrites its line with carriage returns. The last state of each line is kept, and a line that is being rewritten
    is passed on at most every ``bar_every`` seconds: hours of training appear in the log without flooding it.

    Args:
        on_line: Called with each line, without line end, colours and passwords of addresses.
        keep: Number of last lines remembered for an error message.
        bar_every: Seconds between two states of one progress bar.
    """

    def __init__(self, on_line: Callable[[str], None], keep: int = 20, bar_every: float = 30.0) -> None:
        self.last: deque[str] = deque(maxlen=keep)
        self._on_line = on_line
        self._bar_every = bar_every
        self._bar_due = time.monotonic() + bar_every
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Process more of the stream."""
        *complete, self._rest = (self._rest + chunk).split(b"\n")
        for line in complete:
            self._emit(line)
        bar, separator, rest = self._rest.rpartition(b"\r")
        if separator and time.monotonic() >= self._bar_due:
            self._emit(bar if not rest else self._rest)
            self._rest = b""
        elif separator:
            self._rest = bar.rpartition(b"\r")[2] + separator + rest  # one state is enough to remember
        if len(self._rest) > 8 * MAX_LENGTH:
            self._emit(self._rest)
            self._rest = b""

    def close(self) -> None:
        """Pass on what follows the last line end."""
        if self._rest:
            self._emit(self._rest)
            self._rest = b""

    def _emit(self, line: bytes) -> None:
        states = [state for state in ANSI.sub("", line.decode(errors="replace")).split("\r") if state.strip()]
        if not states:
            return
        text = visible(redacted(states[-1].rstrip()))
        text = text if len(text) <= MAX_LENGTH else text[:MAX_LENGTH] + " [...]"
        self._bar_due = time.monotonic() + self._bar_every
        self.last.append(text)
        self._on_line(text)
