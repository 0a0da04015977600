"""Formats of lines that are no tables: a label before or behind the text, without a delimiter."""

import re
from collections.abc import Sequence

from tuneline.readers.fasttext import PREFIX
from tuneline.runtime.errors import DataError

LEAST_LINES = 0.9
"""Share of lines in the format."""
TREC = re.compile(r"[A-Z]{2,6}:\w+ \S.*")
"""A question of TREC: the coarse class, the fine one, and the text."""


def is_fasttext(lines: Sequence[str]) -> bool:
    """Return True if nearly all lines begin with a label of fastText."""
    filled = [line for line in lines if line.strip()]
    labelled = [line for line in filled if line.lstrip("\ufeff").startswith(PREFIX)]
    return len(labelled) >= LEAST_LINES * len(filled)


def refuse_line_format(name: str, lines: Sequence[str]) -> None:
    """Refuse a file in the format of TREC, and say how to convert it.

    Raises:
        DataError: Nearly all lines are in that format.
    """
    filled = [line.strip() for line in lines if line.strip()]
    questions = [line for line in filled if TREC.fullmatch(line)]
    if len(filled) < 2 or len(questions) < LEAST_LINES * len(filled):
        return
    command = (
        f"(printf 'label\\tfine\\ttext\\n'; sed -E 's/^([A-Z]+):([^ ]+) /\\1\\t\\2\\t/' {name}) > {name}.tsv"
    )
    raise DataError(
        f"{name} has the lines of TREC: a coarse class, a fine one and the text, such as {filled[0][:60]!r}.",
        f"Convert it to a table: {command}",
    )
