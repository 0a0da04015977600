"""What a program prints, as lines fit for a log."""

import re
import time
from collections import deque
from collections.abc import Callable

ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
LONGEST = 2000
"""Characters of one line that are kept. Prefect refuses log records of a megabyte; nobody reads lines of that length."""


class Lines:
    """Cuts a stream of bytes into lines and hands each on as it comes.

    A progress bar rewrites its line with carriage returns: of each line the last state is kept, and a line that is being
    rewritten is handed on at most every ``bar_every`` seconds, so that hours of training leave a trace but not a flood.

    Args:
        hand_on: Called with each line, without its end, without colours.
        keep: Number of last lines remembered for an error message.
        bar_every: Seconds between two states of one progress bar.
    """

    def __init__(self, hand_on: Callable[[str], None], keep: int = 20, bar_every: float = 30.0) -> None:
        self.last: deque[str] = deque(maxlen=keep)
        self._hand_on = hand_on
        self._bar_every = bar_every
        self._bar_due = time.monotonic() + bar_every
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Takes more of the stream."""
        *complete, self._rest = (self._rest + chunk).split(b"\n")
        for line in complete:
            self._emit(line)
        bar, separator, rest = self._rest.rpartition(b"\r")
        if separator and time.monotonic() >= self._bar_due:
            self._emit(bar if not rest else self._rest)
            self._rest = b""
        elif separator:
            self._rest = bar.rpartition(b"\r")[2] + separator + rest  # one state is enough to remember
        if len(self._rest) > 8 * LONGEST:
            self._emit(self._rest)
            self._rest = b""

    def close(self) -> None:
        """Hands on what stood after the last line end."""
        if self._rest:
            self._emit(self._rest)
            self._rest = b""

    def _emit(self, line: bytes) -> None:
        states = [state for state in ANSI.sub("", line.decode(errors="replace")).split("\r") if state.strip()]
        if not states:
            return
        text = states[-1].rstrip()
        text = text if len(text) <= LONGEST else text[:LONGEST] + " [...]"
        self._bar_due = time.monotonic() + self._bar_every
        self.last.append(text)
        self._hand_on(text)
