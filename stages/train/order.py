"""The order of the training examples: batches of rows of similar length, redrawn every epoch.

The order is a function of (seed, epoch) alone: neither the hardware nor an interruption changes it. A *batch* holds the
examples of one optimizer step over all processes.
"""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from stages.train.data import Rows
from tuneline.batches import TokenizedRows

MIN_WINDOWS_PER_EPOCH = 4


class LengthBucketedSampler:
    """Batches of rows of similar length, redrawn every epoch.

    The permutation of an epoch is cut into windows. Each window is sorted by length, longest first, and cut into batches.
    Rows of equal length stay in random order, so batches are random and contain almost no padding. Batches of a window are
    not shuffled: where the label correlates with the length, shuffling gives a higher final loss (docs/benchmarks.md).

    It takes 4 bytes per row: the permutation of the epoch asked for last.

    Args:
        rows: The rows, for their lengths.
        batch_size: Examples of one optimizer step.
        window: Maximum number of batches sorted together; 1 sorts only within a batch. An epoch has at least
            ``MIN_WINDOWS_PER_EPOCH`` windows.
        seed: Random seed of the run.
    """

    def __init__(self, rows: TokenizedRows, batch_size: int, window: int, seed: int) -> None:
        self.rows = rows
        self.batch_size = batch_size
        self.full_batches = len(rows) // batch_size
        self.window = min(window, max(self.full_batches // MIN_WINDOWS_PER_EPOCH, 1))
        self.seed = seed
        self._drawn: tuple[int, EpochBatches] | None = None

    @property
    def batches_per_epoch(self) -> int:
        """Number of optimizer steps of one epoch, including a smaller last batch."""
        return -(-len(self.rows) // self.batch_size)

    def epoch(self, epoch: int) -> "EpochBatches":
        """Return the batches of one epoch; every row is in exactly one.

        A smaller batch comes last. Its rows are drawn before sorting, because each of them has more weight than a row of a
        full batch: sorted, they would be the shortest rows in every epoch. In the first epoch, the batch with the longest row
        comes first, so that too little memory shows in the first step.
        """
        if self._drawn is None or self._drawn[0] != epoch:
            self._drawn = None  # its memory is free before more is taken
            permutation = np.arange(len(self.rows), dtype=np.min_scalar_type(len(self.rows)))
            np.random.default_rng((self.seed, epoch)).shuffle(permutation)
            self._drawn = epoch, EpochBatches(self, permutation, self._longest(permutation) if epoch == 0 else 0)
        return self._drawn[1]

    def sort_by_length(self, rows: NDArray[Any]) -> Rows:
        """Return rows with the longest first; those of equal length keep their order."""
        return rows[np.argsort(-self.rows.lengths_of(rows), kind="stable")].astype(np.int64)

    def _longest(self, permutation: NDArray[Any]) -> int:
        """Return the first full batch with the longest row of all full batches: the first batch of a window."""
        span, end = self.window * self.batch_size, self.full_batches * self.batch_size
        longest = [self.rows.lengths_of(permutation[start : min(start + span, end)]).max() for start in range(0, end, span)]
        return int(np.argmax(longest)) * self.window if longest else 0


class EpochBatches(Sequence[Rows]):
    """The batches of one epoch, or a slice of them. A window is sorted when one of its batches is asked for.

    Args:
        sampler: Sampler that drew the permutation.
        permutation: All rows in random order.
        longest: Batch that changes places with the first one.
        positions: The batches of this slice; all without it.
    """

    def __init__(self, sampler: LengthBucketedSampler, permutation: NDArray[Any], longest: int, positions: range | None = None) -> None:
        self._sampler = sampler
        self._permutation = permutation
        self._longest = longest
        self._positions = range(sampler.batches_per_epoch) if positions is None else positions
        self._sorted: tuple[int, Rows] | None = None

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, index: int) -> Rows: ...

    @overload
    def __getitem__(self, index: slice) -> "EpochBatches": ...

    def __getitem__(self, index: int | slice) -> "Rows | EpochBatches":
        if isinstance(index, slice):
            return EpochBatches(self._sampler, self._permutation, self._longest, self._positions[index])
        position = self._positions[index]
        return self._batch(self._longest - position if position in {0, self._longest} else position)

    def _batch(self, position: int) -> Rows:
        size, end = self._sampler.batch_size, self._sampler.full_batches
        if position == end:
            return self._sampler.sort_by_length(self._permutation[end * size :])
        window, index = divmod(position, self._sampler.window)
        if self._sorted is None or self._sorted[0] != window:
            first = window * self._sampler.window
            rows = self._permutation[first * size : min(first + self._sampler.window, end) * size]
            self._sorted = window, self._sampler.sort_by_length(rows)
        return self._sorted[1][index * size :][:size]
