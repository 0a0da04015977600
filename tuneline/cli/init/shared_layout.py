"""The layout that all source files share: ``data.files`` describes format, header and encoding once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tuneline.columns.profiles import Cells
from tuneline.readers.tables import Input, Layout
from tuneline.runtime.errors import DataError
from tuneline.sniffing.encodings import WESTERN_ENCODING
from tuneline.sniffing.files import Sniffed

CONTEXT = 20
"""Characters that are shown on each side of a character beyond ASCII."""


def settled_headers(sniffed: Mapping[str, Sniffed], header: bool | None) -> dict[str, Input]:
    """Return the file of each split, all of them with or all without a header, and of one layout.

    Args:
        sniffed: What was detected of the file of each split.
        header: True if the first line names the columns, as the user says; ``None`` to take what is detected.

    Raises:
        UnclearHeaderError: No file shows whether they have a header.
        DataError: The files have different layouts.
    """
    # the user's word for all files, else a file that shows it speaks for those that do not
    clear = [each.header for each in sniffed.values() if each.is_clear]
    if header is None and not clear:
        raise sniffed["train"].unclear_header("add --header", "add --no-header")
    files = {}
    for split, each in sniffed.items():
        if header is not None:
            each = each.with_header(header)  # noqa: PLW2901
        elif not each.is_clear:
            each = each.with_header(clear[0])  # noqa: PLW2901
        files[split] = each.settled()

    # one layout
    for file in files.values():
        if _shared(file) != _shared(files["train"]):
            problem = f"{file.name} has another layout than {files['train'].name}."
            raise DataError(problem, "Write all files in one format, delimiter and encoding.")
    return files


def _shared(file: Input) -> tuple[Layout, bool, bool]:
    """Return what all files have in common: how they are written, and whether they are packed."""
    has_header = file.layout.columns is None
    return replace(file.layout, columns=None), has_header, file.name.lower().endswith(".gz")


def guessed_encoding_notes(encoding: str, sample: Sequence[Cells]) -> list[str]:
    """Return a warning with an example if the encoding is a guess."""
    if encoding != WESTERN_ENCODING:
        return []
    shown = _beyond_ascii(sample)
    return [
        f"! The file is not UTF-8 and is read as {WESTERN_ENCODING}: {shown!r}. If that looks wrong, name its"
        " encoding: --encoding NAME"
    ]


def _beyond_ascii(sample: Sequence[Cells]) -> str:
    """Return the first character beyond ASCII in a sample of rows, with the text around it."""
    for row in sample:
        for cell in row:
            if cell and not cell.isascii():
                position = next(index for index, character in enumerate(cell) if not character.isascii())
                return cell[max(0, position - CONTEXT) : position + CONTEXT]
    return ""
