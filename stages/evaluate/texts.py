"""The texts of the reported split, read in batches or by row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tuneline.errors import DataError
from tuneline.files.shards import SplitReader

Texts = tuple[str, ...]


@dataclass(frozen=True)
class TextSplit:
    """The texts of a raw split.

    Attributes:
        raw: The raw split.
        columns: One or two text columns.
    """

    raw: SplitReader
    columns: tuple[str, ...]

    @classmethod
    def of(cls, raw: SplitReader, columns: Sequence[str], rows: int) -> Self:
        """Check that a raw split has the texts of the tokenized rows.

        Args:
            raw: The raw split.
            columns: One or two names.
            rows: Required number of rows.

        Raises:
            DataError: A column is missing, or the number of rows differs.
        """
        known = raw.schema.names
        missing = [name for name in columns if name not in known]
        if missing:
            raise DataError(f"{raw.name} has no column {missing[0]!r}; it has {', '.join(known)}.", "Check data.text_columns.")
        if raw.rows != rows:
            raise DataError(f"{raw.name} has {raw.rows} rows, the tokenized split has {rows}.", "Run `dvc repro tokenize`.")
        return cls(raw, tuple(columns))

    def batches(self) -> Iterator[list[list[str]]]:
        """Yield the texts of all rows in batches, one list for each column."""
        for batch in self.raw.batches(self.columns):
            yield [column.to_pylist() for column in batch.columns]

    def take(self, rows: NDArray[np.int64]) -> list[Texts]:
        """Return the texts of chosen rows, whose numbers ascend."""
        columns = self.raw.take(rows, self.columns).columns
        return list(zip(*(column.to_pylist() for column in columns), strict=True))
