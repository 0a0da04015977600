"""The formats of files with rows, and their suffixes.

A new format is a module with a ``Format`` and a ``Table``, and an entry in ``FORMATS``.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from tuneline.readers.delimited import CSV, TSV
from tuneline.readers.fasttext import FASTTEXT
from tuneline.readers.files import DataFile
from tuneline.readers.jsonl import JSONL
from tuneline.readers.parquet import PARQUET
from tuneline.readers.rows import PARAMETERS, Limits
from tuneline.readers.tables import Format, Input
from tuneline.runtime.errors import DataError

if TYPE_CHECKING:
    from tuneline.params.data import FilesParams

FORMATS: dict[str, Format] = {each.name: each for each in (CSV, TSV, JSONL, PARQUET, FASTTEXT)}
"""The formats by name."""
FORMAT_OF_SUFFIX = {suffix: each for each in FORMATS.values() for suffix in each.suffixes}
ANY_TEXT = ".txt"
"""The suffix of tables and of all other texts: such a file is read only if it is named."""
ENDINGS = tuple(
    suffix + packed for suffix in FORMAT_OF_SUFFIX if suffix != ANY_TEXT for packed in ("", ".gz")
)
"""Endings of the names of files with rows, by which they are found in a folder."""
HINTS = {
    ".xlsx": "Save the sheet as CSV (UTF-8).",
    ".xls": "Save the sheet as CSV (UTF-8).",
    ".zip": "Unpack it first.",
}


def suffix_of(name: str) -> str:
    """Return the suffix that tells the format of a file, in lower case and without ``.gz``."""
    return Path(name.lower().removesuffix(".gz")).suffix


def format_of(path: DataFile | None, option: str) -> Format:
    """Return the format by the suffix of a file; of standard input or output, JSON Lines.

    Raises:
        DataError: The suffix is unknown. The message names the ``option`` that sets the format.
    """
    if path is None:
        return JSONL
    suffix = suffix_of(path.name)
    if suffix not in FORMAT_OF_SUFFIX:
        known = f"Set {option} to {', '.join(FORMATS)}, or name a file that ends in {', '.join(ENDINGS)}."
        raise DataError(f"{path}: the format is not clear from the suffix.", HINTS.get(suffix, known))
    return FORMAT_OF_SUFFIX[suffix]


def data_input(path: Path, files: "FilesParams") -> Input:
    """Return a file of training data, as ``data.files`` describes it."""
    layout = format_of(path, "data.files").usual.of_data(files)
    limits = Limits.of(files.max_cell_characters, files.max_row_group_mb, files.max_unpacked_mb)
    return Input(path, layout, limits, options=PARAMETERS, strict=True)
