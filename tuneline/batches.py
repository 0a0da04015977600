"""Tokenized rows and padded batches of them, for torch and ONNX Runtime. Does not import torch."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuneline.files.schemas import LabelSchema
from tuneline.files.shards import SplitReader
from tuneline.files.token_maps import TokenMap

Batch = dict[str, NDArray[np.int64]]


@dataclass(frozen=True)
class TokenizedRows:
    """Tokenized rows as ragged arrays, without a Python object per row.

    Attributes:
        values: By model input, the concatenated values of all rows.
        offsets: Row ``i`` is ``values[name][offsets[i] : offsets[i + 1]]``; int64 of shape ``(rows + 1,)``.
    """

    values: Mapping[str, NDArray[np.integer]]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row, special tokens included; int64 of shape ``(rows,)``, computed anew at each access."""
        return np.diff(self.offsets)

    def lengths_of(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the tokens of some rows, given their numbers."""
        lengths: NDArray[np.int64] = self.offsets[1:][rows] - self.offsets[:-1][rows]
        return lengths

    def pad(self, rows: NDArray[np.int64], pad_token_id: int) -> Batch:
        """Pad some rows on the right to the longest of them.

        Args:
            rows: Row numbers.
            pad_token_id: Padding of ``input_ids``. The other inputs are padded with 0.

        Returns:
            By model input, int64 of shape ``(len(rows), longest)``.
        """
        lengths = self.lengths_of(rows)
        real = np.arange(lengths.max(initial=0)) < lengths[:, None]
        source = (self.offsets[rows][:, None] + np.arange(real.shape[1]))[real]
        batch = {}
        for name, values in self.values.items():
            padded = np.full(real.shape, pad_token_id if name == "input_ids" else 0, dtype=np.int64)
            padded[real] = values[source]
            batch[name] = padded
        return batch


@dataclass(frozen=True)
class TokenizedSplit(TokenizedRows):
    """Tokenized rows with labels.

    Attributes:
        labels: Class ids (int64) or regression targets (float32) of shape ``(rows,)``.
        label_schema: Class names, or regression.
    """

    labels: NDArray[np.int64] | NDArray[np.float32]
    label_schema: LabelSchema

    @staticmethod
    def read(rows: SplitReader) -> "MappedSplit":
        """Map a split of ``data/tokenized/`` into memory, from all its files.

        Raises:
            DataError: A file is damaged.
            DiskError: The disk is full (``tuneline/files/token_maps.py``).
        """
        tokens = TokenMap.open(rows)
        labels = LabelSchema.of(rows.schema)
        return MappedSplit(tokens.values, tokens.offsets, tokens.labels, labels, tokens)

    def take(self, rows: NDArray[np.int64]) -> "TokenizedSplit":
        """Return a split of some rows, in the given order and in memory."""
        lengths = self.lengths_of(rows)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        source = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        values = {name: column[source] for name, column in self.values.items()}
        return TokenizedSplit(values, offsets, self.labels[rows], self.label_schema)


@dataclass(frozen=True)
class MappedSplit(TokenizedSplit):
    """A split of ``data/tokenized/``, whose arrays are mapped into memory and read-only.

    Attributes:
        tokens: Its map, with what is known of all rows.
    """

    tokens: TokenMap


def length_sorted_batches(lengths: NDArray[np.int64], batch_size: int) -> list[NDArray[np.int64]]:
    """Return row numbers in batches of similar length, longest first.

    Sorting avoids almost all padding, and the longest batch first shows at once if memory suffices. Every row is in exactly one
    batch. Rows of the same length keep their order.
    """
    order = np.argsort(-lengths, kind="stable")
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
