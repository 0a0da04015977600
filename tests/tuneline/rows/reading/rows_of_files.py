"""Files that are written for a test, and read through the one door for files."""

from pathlib import Path

from tuneline.rows.reading.formats import FORMAT_OF_SUFFIX, suffix_of
from tuneline.rows.reading.rows import RowProblem
from tuneline.rows.reading.tables import open_table


def read(path: Path, content: str | bytes | None = None, **layout):
    """Write a file, and return its columns and its rows, each with its line and its values or problem."""
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode(errors="surrogateescape"))
    source = FORMAT_OF_SUFFIX[suffix_of(path.name)].usual(path).told(layout)
    with open_table(source) as table:
        names = table.names()
        return names, list(table.rows(names))


def problems(rows):
    """Return the line and the message of each row that cannot be read."""
    return [(row.line, row.message) for _, row in rows if isinstance(row, RowProblem)]
