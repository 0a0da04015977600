"""The layout that all source files share: ``data.files`` describes format, header and encoding once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tuneline.cli.init.profiles import Cells
from tuneline.core.errors import DataError
from tuneline.readers.delimited import numbered_column
from tuneline.readers.layout import SOURCES, WESTERN_ENCODING, Layout, detect_layout
from tuneline.readers.rows import Limits, listed
from tuneline.readers.text import open_text

SHOWN_CELLS = 5
SHOWN_CHARACTERS = 60
CONTEXT = 20
"""Characters that are shown on each side of a character beyond ASCII."""


class UnclearHeaderError(DataError):
    """The first line of a table can be a header or a row, and the user did not say which."""


def layouts(
    files: Mapping[str, Path], header: bool | None, encoding: str | None, limits: Limits
) -> dict[str, Layout]:
    """Return the layout of the file of each split, the same for all files.

    Args:
        files: The file of each split that has one.
        header: True if the first line names the columns, as the user says; ``None`` to detect it.
        encoding: Encoding that the user named; ``None`` to detect it.
        limits: Largest sizes that are read.

    Raises:
        UnclearHeaderError: No file shows whether they have a header.
        DataError: The files have different layouts.
    """
    detected = {split: detect_layout(path, encoding, limits) for split, path in files.items()}

    # header: the user's word for all files, else a file that shows it speaks for those that do not
    decided = {}
    if header is not None:
        for split, layout in detected.items():
            decided[split] = _with_header(layout, header)
    else:
        clear = [layout for layout in detected.values() if layout.is_clear]
        if not clear:
            raise unclear_header(files["train"], detected["train"])
        for split, layout in detected.items():
            if layout.is_clear:
                decided[split] = layout
            else:
                decided[split] = _with_header(layout, clear[0].header)

    # one layout
    for split, layout in decided.items():
        if _without_mark(layout) != _without_mark(decided["train"]):
            problem = f"{files[split]} has another layout than {files['train']}."
            raise DataError(problem, "Write all files in one format, delimiter and encoding.")
    return decided


def _with_header(layout: Layout, header: bool) -> Layout:
    return replace(layout, header=header, is_clear=True)


def _without_mark(layout: Layout) -> Layout:
    """Return the layout without a byte order mark, which one file may have and another not."""
    return replace(layout, encoding=layout.encoding.removesuffix("-sig"))


def unclear_header(path: Path, layout: Layout) -> UnclearHeaderError:
    """Return the error about a first line that can be read in two ways, with the option for each."""
    with open_text(path, layout.encoding, SOURCES) as lines:
        first = next(filter(None, layout.reader(iter(lines))))  # the first line that is not empty
    shown = listed([cell[:SHOWN_CHARACTERS] for cell in first], SHOWN_CELLS)
    numbered = listed(list(map(numbered_column, range(len(first)))), SHOWN_CELLS)
    problem = (
        f"{path}: the first line of the table, {shown}, can name the columns or be a row like the others."
    )
    hint = (
        f"If it names the columns, add --header. If it is a row, add --no-header: the columns are {numbered}"
        " then."
    )
    return UnclearHeaderError(problem, hint)


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
