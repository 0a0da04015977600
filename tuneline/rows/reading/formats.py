"""The formats of files with rows, and their suffixes. A new format is a table, and an entry here."""

from pathlib import Path
from typing import TYPE_CHECKING

from tuneline.core.runtime.errors import DataError
from tuneline.rows.reading.delimited import CSV, TSV
from tuneline.rows.reading.jsonl import JSONL
from tuneline.rows.reading.parquet import PARQUET
from tuneline.rows.reading.tables import Format, Input

if TYPE_CHECKING:
    from tuneline.core.params.data import FilesParams

FORMATS: dict[str, Format] = {each.name: each for each in (CSV, TSV, JSONL, PARQUET)}
"""The formats by name."""
FORMAT_OF_SUFFIX = {suffix: each for each in FORMATS.values() for suffix in each.suffixes}
ANY_TEXT = ".txt"
"""The suffix of tables and of all other texts: such a file is read only if it is named."""
ENDINGS = tuple(
    suffix + packed for suffix in FORMAT_OF_SUFFIX if suffix != ANY_TEXT for packed in ("", ".gz")
)
"""Endings of the names of files with rows, by which they are found in a folder."""


def suffix_of(name: str) -> str:
    """Return the suffix that tells the format of a file, in lower case and without ``.gz``."""
    return Path(name.lower().removesuffix(".gz")).suffix


def format_of(path: Path | None, option: str) -> Format:
    """Return the format by the suffix of a file; of standard input or output, JSON Lines.

    Raises:
        DataError: The suffix is unknown. The message names the ``option`` that sets the format.
    """
    if path is None:
        return JSONL
    suffix = suffix_of(path.name)
    if suffix not in FORMAT_OF_SUFFIX:
        hint = f"Set {option} to {', '.join(FORMATS)}, or name a file that ends in {', '.join(ENDINGS)}."
        raise DataError(f"{path}: the format is not clear from the suffix.", hint)
    return FORMAT_OF_SUFFIX[suffix]


def data_input(path: Path, files: "FilesParams") -> Input:
    """Return a file of training data, as ``data.files`` describes it."""
    return Input(path, format_of(path, "data.files").usual.told(files.model_dump()))
