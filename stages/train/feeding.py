"""Rows of a split as tensors on the device. Padding in numpy takes a fraction of a millisecond, so there are no workers."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stages.train.order import Rows
from tuneline.batches import TokenizedSplit

_ANY_ROW = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class Feed:
    """Gives out batches of one split.

    Attributes:
        split: The rows.
        pad_token_id: Of the tokenizer.
        device: Where the tensors go.
    """

    split: TokenizedSplit
    pad_token_id: int
    device: torch.device

    def inputs(self, rows: Rows) -> dict[str, Tensor]:
        """Model inputs, int64 of shape ``[rows, longest]``.

        No rows at all become one row of the split: every process must run forward as often as the others, also when it has
        no share in a small group. Its result is not used.
        """
        batch = self.split.pad(rows if len(rows) else _ANY_ROW, self.pad_token_id)
        return {name: self._move(torch.from_numpy(values)) for name, values in batch.items()}

    def labels(self, rows: Rows) -> Tensor:
        """LabelSchema, int64 or float32 of shape ``[rows]``."""
        return self._move(torch.from_numpy(self.split.labels[rows]))

    def _move(self, tensor: Tensor) -> Tensor:
        pinned = tensor.pin_memory() if self.device.type == "cuda" else tensor
        return pinned.to(self.device, non_blocking=True)
