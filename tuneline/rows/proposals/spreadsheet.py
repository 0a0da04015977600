"""CSV files for people, who open them in a spreadsheet. No cell of them is executed there."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuneline.core.runtime.files import replace_file

if TYPE_CHECKING:
    from tuneline.core.params.data import DataParams

ENCODING = "utf-8-sig"
"""With a byte order mark: without one, Excel takes the file for another encoding."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a cell that a spreadsheet may execute (OWASP, "CSV Injection").

The last four are ``=+-@`` of full width.
"""


def delimiter(data: "DataParams") -> str:
    """Return the delimiter of the CSV files of the pipeline."""
    return data.files.delimiter or ","


def free_names(names: Iterable[str], taken: Sequence[str]) -> dict[str, str]:
    """Return the name of a column for each name.

    It is the name itself, or the name with underscores after it where another column has that name.
    """
    free: dict[str, str] = {}
    for name in names:
        free[name] = name
        while free[name] in taken:
            free[name] += "_"
    return free


def write_csv(
    path: Path, data: "DataParams", header: Sequence[object], rows: Iterable[Sequence[object]]
) -> None:
    """Write a file for a spreadsheet. It appears complete or not at all.

    The header is written as it is: a review is read back by the names of the project's own columns.
    """
    with replace_file(path) as partial, partial.open("w", encoding=ENCODING, newline="") as file:
        writer = csv.writer(file, delimiter=delimiter(data))
        writer.writerow(header)
        for row in rows:
            writer.writerow([harmless(cell) for cell in row])


def harmless(cell: object) -> object:
    """Return a cell that no spreadsheet executes.

    A formula gets a space before it, which no comparison of texts sees. Numbers stay.
    """
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f" {cell}"
    return cell
