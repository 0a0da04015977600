"""Training data: tokenized splits, checked before anything expensive starts; batches; padded tensors.

A *batch* holds the examples of one optimizer step over all processes. Splitting it into micro-batches changes
rounding only.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from tuneline.core.params import TrainParams
from tuneline.core.paths import BASE_MODEL, TOKENIZED, TOKENIZER
from tuneline.core.runtime.errors import DataError, ParamsError
from tuneline.core.stage.arrays import RowNumbers
from tuneline.core.stage.entry import require
from tuneline.core.stage.tables import SplitReader, split_files
from tuneline.model.linear.pooled_classifier import LinearHead
from tuneline.model.tasks import Task
from tuneline.model.tokens.architectures import token_limit
from tuneline.model.tokens.batches import TokenizedRows, document_tensor
from tuneline.model.tokens.tokenized_splits import TokenizedSplit
from tuneline.model.tokens.tokenizer import load_tokenizer
from tuneline.training.losses import check_metric


@dataclass(frozen=True)
class Inputs:
    """The two splits, the tokenizer that made them, and what a new head begins with.

    ``linear_head`` is that of the linear model on the frozen checkpoint; ``None``: a head is drawn at random.
    """

    train: TokenizedSplit
    validation: TokenizedSplit
    tokenizer: PreTrainedTokenizerBase
    linear_head: LinearHead | None = None

    @property
    def labels(self) -> Task:
        """Label schema of both splits."""
        return self.train.task

    @property
    def pad_token_id(self) -> int:
        """Id that pads short rows; 0 if the tokenizer has none, because padding is masked anyway."""
        return int(self.tokenizer.pad_token_id or 0)


def model_input_files() -> Iterator[Path]:
    """Yield the files that determine the model: those that ``read_inputs`` reads, and the checkpoint."""
    for split in ("train", "validation"):
        yield from split_files(TOKENIZED, split)
    for folder in (TOKENIZER, BASE_MODEL):
        yield from sorted(path for path in folder.rglob("*") if path.is_file())


def read_inputs(params: TrainParams) -> Inputs:
    """Read the splits and the tokenizer.

    Splits must have rows and labels, which the metric must fit.
    """
    train = _read_split(SplitReader.open(TOKENIZED, "train", made_by="tokenize"))
    validation = _read_split(SplitReader.open(TOKENIZED, "validation", made_by="tokenize"))
    check_metric(params, train.task)
    tokenizer = load_tokenizer(require(TOKENIZER, made_by="tokenize"), str(TOKENIZER))
    return Inputs(train, validation, tokenizer)


def _read_split(rows: SplitReader) -> TokenizedSplit:
    """Map a split that has rows, all of them with a label, which is a finite number in a regression."""
    split = TokenizedSplit.read(rows)
    if not len(split):
        raise DataError(f"{rows.name} has no rows.", f"Check data.splits.{rows.split}.")

    unusable = np.flatnonzero(~np.isfinite(split.labels))
    if len(unusable):
        row = int(unusable[0])
        raise DataError(f"{rows.place(row)}: a label that is NaN or infinite.", "Correct it.")

    unlabelled = split.task.unlabelled(split.labels)
    if unlabelled.any():
        row = int(np.argmax(unlabelled))
        raise DataError(f"{rows.place(row)}: no label.", f"Set data.splits.{rows.split} to a labelled split.")
    return split


def check_fit(inputs: Inputs, config: PretrainedConfig) -> None:
    """Check that the data fit the model: on a GPU, an index out of range ends in an unclear CUDA error."""
    # by attribute: GPT-2's configuration stores it by another name
    positions = getattr(config, "max_position_embeddings", None)
    limit = token_limit({**config.to_dict(), "max_position_embeddings": positions})
    for split in (inputs.train, inputs.validation):
        if limit is not None and split.longest > limit:
            raise ParamsError(
                f"model: it has {limit} positions, but a row has {split.longest} tokens.",
                f"Set tokenize.max_length to {limit}.",
            )
        highest = int(split.values["input_ids"].max())
        if highest >= config.vocab_size:
            raise ParamsError(
                f"model: its highest token id is {config.vocab_size - 1}, but the data contain the id"
                f" {highest}.",
                "Set model.config.vocab_size to the tokens of its tokenizer.",
            )


def split_into_micro_batches(
    batch: RowNumbers, micro_batch_size: int, processes: int, windows: NDArray[np.int64] | None = None
) -> list[RowNumbers]:
    """Split a batch into micro-batches whose sizes differ by at most one, as many for each process.

    Processes compute in lockstep, so a batch with fewer rows than processes gives empty micro-batches.

    Args:
        batch: Rows of an optimizer step.
        micro_batch_size: Rows of a micro-batch at most, or windows of its rows. A row with more windows is a
            micro-batch alone.
        processes: Number of processes.
        windows: Number of windows of each row of the batch; ``None`` for one each.
    """
    if windows is None:
        rounds = math.ceil(len(batch) / (micro_batch_size * processes))
        return np.array_split(batch, rounds * processes)

    # as few rounds as the window counts allow; with one row in each micro-batch, nothing is left to split
    most_rounds = math.ceil(len(batch) / processes)
    rounds = min(math.ceil(windows.sum() / (micro_batch_size * processes)), most_rounds)
    while rounds < most_rounds:
        parts = np.array_split(windows, rounds * processes)
        if all(part.sum() <= micro_batch_size or len(part) == 1 for part in parts):
            break
        rounds += 1
    return np.array_split(batch, rounds * processes)


def shard_batch(
    batch: RowNumbers,
    micro_batch_size: int,
    processes: int,
    process_index: int,
    windows: NDArray[np.int64] | None = None,
) -> list[RowNumbers]:
    """Return the micro-batches of one process; see ``split_into_micro_batches``."""
    parts = split_into_micro_batches(batch, micro_batch_size, processes, windows)
    return parts[process_index::processes]


@dataclass(frozen=True)
class BatchLoader:
    """Rows of one split as padded tensors on the device.

    There are no worker processes: padding a batch with numpy takes a fraction of a millisecond.
    """

    split: TokenizedSplit
    pad_token_id: int
    device: torch.device
    multiple: int = 1
    """A batch is padded to a multiple of this number of tokens.

    But not beyond the longest row or window of the split: a model may have no more positions.
    """

    def width(self, rows: RowNumbers) -> int:
        """Return the tokens to which a batch of these rows is padded."""
        longest_row = int(self.split.input_lengths_of(rows).max(initial=0))  # 0 without rows
        rounded_up = math.ceil(longest_row / self.multiple) * self.multiple
        return max(longest_row, min(rounded_up, self.split.longest))

    def inputs(self, rows: RowNumbers) -> dict[str, Tensor]:
        """Return the model inputs, int64 of shape ``(examples, width)``, or ``(windows, width)``.

        An empty micro-batch becomes the first row of the split, whose logits the caller drops: every process
        must call the model equally often, or the others wait forever for its gradients.
        """
        if not len(rows):
            rows = np.zeros(1, dtype=np.int64)
        padded = self.split.pad(rows, self.pad_token_id, self.width(rows))
        return {name: self._to_device(torch.from_numpy(values)) for name, values in padded.items()}

    def windows(self, rows: RowNumbers) -> NDArray[np.int64] | None:
        """Return the number of windows of each row; ``None`` if the split is not divided into windows."""
        if self.split.windows is None:
            return None
        return self.split.windows.counts(rows)

    def answers(self, outputs: Tensor, rows: RowNumbers) -> Tensor:
        """Return one answer for each row, ``(examples, outputs)``, from the outputs for ``inputs(rows)``.

        The outputs of the row that stands in for an empty micro-batch are dropped.
        """
        windows = self.windows(rows)
        if self.split.windows is None or windows is None:
            return outputs[: len(rows)]
        return document_tensor(outputs[: windows.sum()], windows, self.split.windows.answer)

    def labels(self, rows: RowNumbers) -> Tensor:
        """Return the labels, int64 or float32 of shape ``(examples,)``."""
        return self._to_device(torch.from_numpy(self.split.labels[rows]))

    def _to_device(self, tensor: Tensor) -> Tensor:
        if self.device.type == "cuda":  # only pinned memory is copied while the GPU computes
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)


BUCKET_WINDOW = 50
"""Most batches that are sorted by length together."""
MIN_WINDOWS_PER_EPOCH = 4
"""An epoch that is one window would be sorted by length from its first to its last batch."""


class LengthBucketedSampler:
    """Batches of rows of similar length, redrawn every epoch.

    The permutation of an epoch is cut into windows, of at most ``window`` batches and at least
    ``MIN_WINDOWS_PER_EPOCH`` an epoch. Each window is sorted by length, longest first, and cut into batches.
    Rows of equal length stay in random order, so batches are random and contain almost no padding. Batches of
    a window are not shuffled: where the label correlates with the length, shuffling gives a higher final loss
    (docs/benchmarks.md).
    """

    def __init__(self, rows: TokenizedRows, batch_size: int, seed: int, window: int = BUCKET_WINDOW) -> None:
        self.rows = rows
        self.batch_size = batch_size
        self.full_batches = len(rows) // batch_size
        self.window = min(window, max(self.full_batches // MIN_WINDOWS_PER_EPOCH, 1))
        self.seed = seed
        self._drawn: tuple[int, list[RowNumbers]] | None = None

    @property
    def batches_per_epoch(self) -> int:
        """Number of optimizer steps of one epoch, including a smaller last batch."""
        return math.ceil(len(self.rows) / self.batch_size)

    def epoch(self, epoch: int) -> list[RowNumbers]:
        """Return the batches of one epoch; every row is in exactly one.

        A smaller batch comes last. Its rows are drawn before sorting, because each of them has more weight
        than a row of a full batch: sorted, they would be the shortest rows in every epoch. In the first
        epoch, the batch with the longest row comes first, so that too little memory shows in the first step.
        """
        if self._drawn is None or self._drawn[0] != epoch:
            self._drawn = None  # its memory is free before more is taken
            self._drawn = (epoch, self._draw(epoch))
        return self._drawn[1]

    def _draw(self, epoch: int) -> list[RowNumbers]:
        size = self.batch_size
        permutation = np.arange(len(self.rows), dtype=np.min_scalar_type(len(self.rows)))
        np.random.default_rng((self.seed, epoch)).shuffle(permutation)
        order = permutation.astype(np.int64)

        # sort each window, and the smaller last batch
        end = self.full_batches * size
        starts = [*range(0, end, self.window * size), end, len(order)]
        for start, stop in pairwise(starts):
            rows = order[start:stop]
            order[start:stop] = rows[np.argsort(-self.rows.lengths_of(rows), kind="stable")]

        batches = [order[start : start + size] for start in range(0, len(order), size)]
        if epoch == 0 and self.full_batches:
            # the first row of each window is its longest one
            longest_rows = self.rows.lengths_of(order[starts[:-2]])
            longest = int(np.argmax(longest_rows)) * self.window
            batches[0], batches[longest] = batches[longest], batches[0]
        return batches
