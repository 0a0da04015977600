"""All rows of ``data/raw`` that have a label, of every split, and their division into folds."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.errors import DataError
from tuneline.files.schemas import LABELS, ROW_GROUP, UNLABELLED, LabelSchema, check_text_columns
from tuneline.files.shards import SplitReader
from tuneline.params import DataParams
from tuneline.paths import RAW, SPLITS
from tuneline.text import Keys, normalized, text_keys, unordered_row_keys

Rows = NDArray[np.int64]
VALIDATED = 10
"""One of so many rows that are not held out is for validation."""


@dataclass(frozen=True)
class LabelledRows:
    """Rows of all splits, one split after the other.

    Attributes:
        texts: The text columns.
        labels: Class ids or numbers, shape ``(rows,)``.
        splits: Split of each row, as an index into ``SPLITS``, shape ``(rows,)``.
        numbers: Number of each row in the file of its split, from 0, shape ``(rows,)``.
        schema: Label schema.
    """

    texts: pa.Table
    labels: NDArray[Any]
    splits: NDArray[np.int8]
    numbers: Rows
    schema: LabelSchema

    @classmethod
    def read(cls, data: DataParams) -> Self:
        """Read the raw splits. A split that was published without labels is left out.

        Raises:
            StageError: A split is missing or has other classes, or no row has a label.
        """
        train = SplitReader.open(RAW, "train", made_by="download")
        schema = LabelSchema.of(train.schema)
        tables, labels, splits, numbers = [], [], [], []
        for index, split in enumerate(SPLITS):
            raw = SplitReader.open(RAW, split, made_by="download")
            if LabelSchema.of(raw.schema) != schema:
                raise DataError(f"{raw.name} has other classes than {train.name}.", "Run `dvc repro download`.")
            check_text_columns(raw, data.text_columns)
            table = raw.read([*data.text_columns, LABELS])
            values = table[LABELS].to_numpy()
            unlabelled = values == UNLABELLED
            if schema.is_regression and not unlabelled.all():  # -1 can be a number to predict
                unlabelled = np.zeros(len(values), bool)
            known = np.flatnonzero(~unlabelled)
            tables.append(table.select(list(data.text_columns)).take(pa.array(known)))
            labels.append(values[known])
            splits.append(np.full(len(known), index, np.int8))
            numbers.append(known)
        if not any(map(len, numbers)):
            raise DataError(f"No row in {RAW} has a label.", "Check data.label_column and data.splits.")
        return cls(pa.concat_tables(tables), np.concatenate(labels), np.concatenate(splits), np.concatenate(numbers), schema)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.labels)

    def columns(self) -> list[list[str]]:
        """Return the texts, one list for each column."""
        return [column.to_pylist() for column in self.texts.columns]

    def normalized(self) -> Iterator[list[pa.StringArray]]:
        """Yield the normalized texts in batches, one array for each column."""
        for batch in self.texts.to_batches(max_chunksize=ROW_GROUP):
            yield [normalized(column) for column in batch.columns]

    def keys(self) -> Keys:
        """Return a hash of each row's texts, shape ``(rows,)``. Case, white space and the order of a pair make no difference."""
        return np.concatenate([unordered_row_keys([text_keys(column) for column in columns]) for columns in self.normalized()])


@dataclass(frozen=True)
class Folds:
    """A division of rows into folds. Equal texts are in the same one, and each class is divided evenly.

    Attributes:
        positions: Position of each row in the order of which every fold takes each ``count``-th, shape ``(rows,)``.
        count: Number of folds.
    """

    positions: Rows
    count: int

    @classmethod
    def of(cls, rows: LabelledRows, count: int) -> Self:
        """Divide rows by a hash of their texts within each class, or among near numbers of a regression."""
        units, first, inverse = np.unique(rows.keys(), return_index=True, return_inverse=True)
        positions = np.empty(len(units), np.int64)
        positions[np.lexsort((units, rows.labels[first]))] = np.arange(len(units))
        return cls(positions[inverse], count)

    def held_out(self, fold: int) -> Rows:
        """Return the rows of a fold, ascending."""
        return np.flatnonzero(self.positions % self.count == fold)

    def others(self, fold: int) -> tuple[Rows, Rows]:
        """Return the rows that a model of a fold is trained on, and those that it is validated on."""
        known = self.positions % self.count != fold
        validated = self.positions // self.count % VALIDATED == 0
        return np.flatnonzero(known & ~validated), np.flatnonzero(known & validated)
