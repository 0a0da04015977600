"""The order in which examples are seen: a function of (seed, epoch) alone, whatever the hardware, whatever was interrupted.

The unit is the *group*: the examples of one optimizer step. How a group is shared out over micro batches and processes
comes after, and changes nothing but the rounding.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Order:
    """Deals the rows of a split out into groups, epoch after epoch.

    Rows of like length share a group: the permutation of an epoch is cut into windows, and each window is sorted by length,
    longest first, and cut into groups. Neighbours of one length are still in random order, and windows are redrawn every
    epoch; so batches stay random and padding almost vanishes. Groups of a window stay in that order: where the label goes with the
    length, shuffled ones pull this way and that, and the loss ends higher (docs/benchmarks.md).

    Attributes:
        lengths: Tokens of each row, shape ``[rows]``.
        group_size: Examples of one optimizer step.
        window: Most groups that are sorted together; 1 sorts nothing beyond a group. An epoch has four windows at least.
        seed: Of the run.
    """

    lengths: NDArray[np.int64]
    group_size: int
    window: int
    seed: int

    @property
    def groups_per_epoch(self) -> int:
        """Optimizer steps of one epoch; the last group may be smaller."""
        return -(-len(self.lengths) // self.group_size)

    def epoch(self, epoch: int) -> list[Rows]:
        """All groups of one epoch; every row stands in exactly one.

        The group that is smaller comes last, and its rows are drawn before any sorting: were they the longest, say, the
        same few rows would weigh more than others in every epoch.
        """
        permutation = np.random.default_rng((self.seed, epoch)).permutation(len(self.lengths))
        number = len(permutation) // self.group_size
        whole = number * self.group_size
        span = min(self.window, max(number // 4, 1)) * self.group_size
        groups: list[Rows] = []
        for start in range(0, whole, span):
            groups += [*self._by_length(permutation[start : min(start + span, whole)]).reshape(-1, self.group_size)]
        if epoch == 0:
            _longest_first(groups, self.lengths)
        if whole < len(permutation):
            groups.append(self._by_length(permutation[whole:]))
        return groups

    def _by_length(self, rows: Rows) -> Rows:
        return rows[np.argsort(-self.lengths[rows], kind="stable")]


def _longest_first(groups: list[Rows], lengths: NDArray[np.int64]) -> None:
    """Swaps the group with the longest row to the front: where memory does not suffice, that shows in the first step."""
    if groups:
        longest = max(range(len(groups)), key=lambda index: lengths[groups[index]].max())
        groups[0], groups[longest] = groups[longest], groups[0]


def chunks(rows: Rows, micro_batch_size: int, processes: int) -> list[Rows]:
    """The micro batches of a group, of sizes that differ by at most one: as many for each process as for the others.

    Processes compute in step, so a group with fewer rows than there are processes has empty ones.

    Args:
        rows: The rows of the group.
        micro_batch_size: Most examples in one forward pass.
        processes: Number of processes.
    """
    rounds = -(-len(rows) // (micro_batch_size * processes))
    return np.array_split(rows, rounds * processes)


def share(rows: Rows, micro_batch_size: int, processes: int, process: int) -> list[Rows]:
    """The micro batches of one process; see ``chunks``."""
    return chunks(rows, micro_batch_size, processes)[process::processes]
