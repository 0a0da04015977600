"""Limits on what a file may grow to when it is read: one of a few hundred bytes can unpack to more than any memory or disk holds."""

from dataclasses import dataclass
from typing import Self

from tuneline.errors import DataError

MB = 1 << 20
"""Bytes."""


@dataclass(frozen=True)
class Limits:
    """Largest sizes that are read.

    Attributes:
        cell: Characters of a cell.
        row_group: Bytes of rows that belong together, decoded: a row group of a Parquet file, or the rows that are staged together.
        unpacked: Bytes of a whole file, unpacked and decoded.
    """

    cell: int = MB
    row_group: int = 1024 * MB
    unpacked: int = 16384 * MB

    @classmethod
    def of(cls, cell_characters: int, row_group_mb: int, unpacked_mb: int) -> Self:
        """Return limits in the units of the parameters."""
        return cls(cell_characters, row_group_mb * MB, unpacked_mb * MB)


DEFAULT_LIMITS = Limits()


def too_large(where: str, met: str, limit: str, option: str) -> DataError:
    """Return the error for something that is larger than its limit.

    Args:
        where: The file, and the row and column where there are any.
        met: What was met, for example ``2,000,000 characters, more``.
        limit: The limit, in the unit of its option.
        option: The option or parameter that sets the limit.
    """
    hint = f"Check where the file comes from. If it is as it should be, raise {option}."
    return DataError(f"{where}: {met} than {limit} ({option}).", hint)
