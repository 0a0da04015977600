"""Files that hold no rows, whatever their names say: pointers, pages, archives, spreadsheets.

The first bytes tell. Each is called by its name, with what to do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuneline.checkpoints.lfs_pointers import LFS_START
from tuneline.runtime.errors import DataError

HEAD = 512
"""Bytes that are read."""


@dataclass(frozen=True)
class NoRows:
    """A kind of file that holds no rows.

    Attributes:
        starts: Its first bytes, in lower case; white space before them does not count.
        name: What people call it.
        hint: What to do.
    """

    starts: tuple[bytes, ...]
    name: str
    hint: str


SHEET = "Open it in a spreadsheet program, and save the sheet as CSV (UTF-8)."
UNPACK = "Unpack it, and name the file in it."
KINDS: Sequence[NoRows] = (
    NoRows((LFS_START,), "a pointer of Git LFS, not the file itself", "Fetch the file: `git lfs pull`."),
    NoRows(
        (b"<!doctype html", b"<html", b"<head"),
        "a web page, not the data",
        "The address gave a page, such as one to sign in: download the file itself.",
    ),
    NoRows((b"<?xml",), "an XML file", "Convert it to CSV or JSON Lines."),
    NoRows((b"%pdf",), "a PDF file", "Convert its table to CSV."),
    NoRows((b"\xd0\xcf\x11\xe0",), "a spreadsheet of Excel 97", SHEET),
    NoRows((b"pk\x03\x04",), "a ZIP archive or a spreadsheet (.xlsx)", f"{UNPACK} Or: {SHEET}"),
    NoRows((b"7z\xbc\xaf\x27\x1c", b"rar!", b"bzh", b"\xfd7zxz", b"\x28\xb5\x2f\xfd"), "an archive", UNPACK),
    NoRows(
        (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
        "a pickle of Python",
        "Save it as CSV or Parquet.",
    ),
    NoRows((b"sqlite format 3",), "a database of SQLite", "Export the table as CSV."),
    NoRows((b"arrow1", b"feather1", b"fea1"), "an Arrow file", "Save it as Parquet."),
)
"""The kinds. A new one is an entry."""


def kind_of(head: bytes) -> NoRows | None:
    """Return what a file is that holds no rows, by its first bytes; ``None`` if it may hold rows."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    for kind in KINDS:
        if start.startswith(tuple(start_of.lower() for start_of in kind.starts)):
            return kind
    return None


def refuse_no_rows(path: Path) -> None:
    """Refuse a file that holds no rows.

    Raises:
        DataError: The file is one of ``KINDS``.
    """
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return  # whoever reads it says why
    kind = kind_of(head)
    if kind is not None:
        raise DataError(f"{path} is {kind.name}.", kind.hint)
