"""Batches of the train split: which rows, in which order, split into micro-batches, and padded into tensors.

The order is a function of (seed, epoch) alone: neither the hardware nor an interruption changes it. A *batch* holds the
examples of one optimizer step over all processes. Splitting it into micro-batches changes rounding only.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuneline.batches import TokenizedSplit

Rows = NDArray[np.int64]
"""Row indices into a split, shape ``(examples,)``."""
MIN_WINDOWS_PER_EPOCH = 4


@dataclass(frozen=True)
class LengthBucketedSampler:
    """Batches of rows of similar length, redrawn every epoch.

    The permutation of an epoch is cut into windows. Each window is sorted by length, longest first, and cut into batches.
    Rows of equal length stay in random order, so batches are random and contain almost no padding. Batches of a window are
    not shuffled: where the label correlates with the length, shuffling gives a higher final loss (docs/benchmarks.md).

    Attributes:
        lengths: Tokens of each row, shape ``(rows,)``.
        batch_size: Examples of one optimizer step.
        window: Maximum number of batches sorted together; 1 sorts only within a batch. An epoch has at least
            ``MIN_WINDOWS_PER_EPOCH`` windows.
        seed: Random seed of the run.
    """

    lengths: NDArray[np.int64]
    batch_size: int
    window: int
    seed: int

    @property
    def batches_per_epoch(self) -> int:
        """Number of optimizer steps of one epoch, including a smaller last batch."""
        return -(-len(self.lengths) // self.batch_size)

    def epoch(self, epoch: int) -> list[Rows]:
        """Return the batches of one epoch; every row is in exactly one.

        A smaller batch comes last. Its rows are drawn before sorting, because each of them has more weight than a row of a
        full batch: sorted, they would be the shortest rows in every epoch.
        """
        permutation = np.random.default_rng((self.seed, epoch)).permutation(len(self.lengths))
        full_batches = len(permutation) // self.batch_size
        full_rows = full_batches * self.batch_size
        span = min(self.window, max(full_batches // MIN_WINDOWS_PER_EPOCH, 1)) * self.batch_size
        batches: list[Rows] = []
        for start in range(0, full_rows, span):
            window = self._sort_by_length(permutation[start : min(start + span, full_rows)])
            batches += [*window.reshape(-1, self.batch_size)]
        if epoch == 0:
            _move_longest_first(batches, self.lengths)
        if full_rows < len(permutation):
            batches.append(self._sort_by_length(permutation[full_rows:]))
        return batches

    def _sort_by_length(self, rows: Rows) -> Rows:
        return rows[np.argsort(-self.lengths[rows], kind="stable")]


def _move_longest_first(batches: list[Rows], lengths: NDArray[np.int64]) -> None:
    """Swap the batch with the longest row to the front, so that too little memory shows in the first step."""
    if batches:
        longest = max(range(len(batches)), key=lambda index: lengths[batches[index]].max())
        batches[0], batches[longest] = batches[longest], batches[0]


def split_into_micro_batches(batch: Rows, micro_batch_size: int, processes: int) -> list[Rows]:
    """Split a batch into micro-batches whose sizes differ by at most one; every process gets the same number of them.

    Processes compute in lockstep, so a batch with fewer rows than processes gives empty micro-batches.

    Args:
        batch: Rows of the batch.
        micro_batch_size: Maximum number of examples in one forward pass.
        processes: Number of processes.
    """
    rounds = -(-len(batch) // (micro_batch_size * processes))
    return np.array_split(batch, rounds * processes)


def shard_batch(batch: Rows, micro_batch_size: int, processes: int, process_index: int) -> list[Rows]:
    """Return the micro-batches of one process; see ``split_into_micro_batches``."""
    return split_into_micro_batches(batch, micro_batch_size, processes)[process_index::processes]


@dataclass(frozen=True)
class BatchLoader:
    """Rows of one split as padded tensors on the device.

    There are no worker processes: padding a batch with numpy takes a fraction of a millisecond.

    Attributes:
        split: The tokenized rows.
        pad_token_id: Padding id of the tokenizer.
        device: Device of the tensors.
    """

    split: TokenizedSplit
    pad_token_id: int
    device: torch.device

    def inputs(self, rows: Rows) -> dict[str, Tensor]:
        """Return the model inputs, int64 of shape ``(examples, longest)``.

        An empty micro-batch becomes the first row of the split, whose logits the caller drops: every process must call the
        model equally often, or the others wait forever for its gradients.
        """
        padded = self.split.pad(rows if len(rows) else np.zeros(1, dtype=np.int64), self.pad_token_id)
        return {name: self._to_device(torch.from_numpy(values)) for name, values in padded.items()}

    def labels(self, rows: Rows) -> Tensor:
        """Return the labels, int64 or float32 of shape ``(examples,)``."""
        return self._to_device(torch.from_numpy(self.split.labels[rows]))

    def _to_device(self, tensor: Tensor) -> Tensor:
        pinned = tensor.pin_memory() if self.device.type == "cuda" else tensor
        return pinned.to(self.device, non_blocking=True)
