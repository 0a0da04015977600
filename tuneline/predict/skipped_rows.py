"""How the rows are printed that are left out of a file."""

from tuneline.runtime.terminal import say

REPORTED = 20
"""Skipped rows that are reported one by one; rows after them are only counted."""


class RowReport:
    """Prints the first ``REPORTED`` skipped rows one by one."""

    def __init__(self) -> None:
        self._lines = 0

    def add(self, line: str) -> None:
        """Print a line, if it is one of the first ``REPORTED``."""
        self._lines += 1
        if self._lines <= REPORTED:
            say(line, error=True)
        if self._lines == REPORTED:
            say("(further bad rows are counted, but not reported)", error=True)
