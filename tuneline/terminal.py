"""What is printed: texts of data, file names and commits may contain characters that a terminal obeys, so they are printed as codes."""

import re
import sys
import traceback
from types import TracebackType

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 and C1 control characters but tabs and line ends, characters that reverse the direction of writing (bidirectional embeddings,
overrides and isolates), and surrogates: bytes of a file name that are not UTF-8."""


def visible(text: str) -> str:
    r"""Return the text with each character that a terminal obeys as its code, for example ``\x1b`` for the escape character."""
    return OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def say(text: str, *, error: bool = False) -> None:
    """Print a text as one or several lines, to standard error if ``error``. Nothing else prints, except ``tuneline.cli.console``."""
    print(visible(text), file=sys.stderr if error else sys.stdout, flush=True)


def say_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an unexpected error as Python does (``sys.excepthook``)."""
    say("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"), error=True)
