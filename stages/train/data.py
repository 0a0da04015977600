"""Training data: the tokenized splits, checked before anything expensive starts; the order of batches; padded tensors.

The order is a function of (seed, epoch) alone: neither the hardware nor an interruption changes it. A *batch* holds the
examples of one optimizer step over all processes. Splitting it into micro-batches changes rounding only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from tuneline.architectures import token_limit
from tuneline.batches import TokenizedSplit
from tuneline.errors import DataError, ParamsError
from tuneline.files.schemas import UNLABELLED, LabelSchema
from tuneline.metrics import metrics_for
from tuneline.params import TrainParams
from tuneline.paths import BASE_MODEL, TOKENIZED, TOKENIZER, split_file
from tuneline.scores import task_of
from tuneline.stage import require

Rows = NDArray[np.int64]
"""Row indices into a split, shape ``(examples,)``."""
MIN_WINDOWS_PER_EPOCH = 4


@dataclass(frozen=True)
class Inputs:
    """The two splits, and the tokenizer that made them."""

    train: TokenizedSplit
    validation: TokenizedSplit
    tokenizer: PreTrainedTokenizerBase

    @property
    def labels(self) -> LabelSchema:
        """Label schema of both splits."""
        return self.train.label_schema

    @property
    def pad_token_id(self) -> int:
        """Id that pads short rows; 0 if the tokenizer has none, because padding is masked anyway."""
        return int(self.tokenizer.pad_token_id or 0)


def data_files() -> Iterator[Path]:
    """Yield the files that determine the model: those that ``read_inputs`` reads, and the checkpoint."""
    yield from (split_file(TOKENIZED, split) for split in ("train", "validation"))
    for folder in (TOKENIZER, BASE_MODEL):
        yield from sorted(path for path in folder.rglob("*") if path.is_file())


def read_inputs(params: TrainParams) -> Inputs:
    """Read and check the splits and the tokenizer.

    Raises:
        DataError: A split is empty or has rows without a label.
        ParamsError: The metric or the class weights do not fit the labels.
    """
    splits = {split: TokenizedSplit.read(require(split_file(TOKENIZED, split), made_by="tokenize")) for split in ("train", "validation")}
    for name, split in splits.items():
        check_split(name, split)
    check_label_params(params, splits["train"].label_schema)
    tokenizer = AutoTokenizer.from_pretrained(require(TOKENIZER, made_by="tokenize"), trust_remote_code=False)
    return Inputs(splits["train"], splits["validation"], tokenizer)


def check_split(name: str, split: TokenizedSplit) -> None:
    """Refuse a split without rows or with unlabelled rows.

    Raises:
        DataError: The split is empty, or a row has no label.
    """
    path = split_file(TOKENIZED, name)
    if not len(split):
        raise DataError(f"{path} has no rows.", f"Check data.splits.{name}.")
    if not split.label_schema.is_regression and (split.labels == UNLABELLED).any():
        row = int(np.argmax(split.labels == UNLABELLED))
        raise DataError(f"{path}, row {row}: no label.", f"Set data.splits.{name} to a labelled split.")


def check_label_params(params: TrainParams, labels: LabelSchema) -> None:
    """Check that metric, class weights and label smoothing fit the labels.

    Raises:
        ParamsError: A parameter is for the other kind of task, or names an unknown class.
    """
    known = [metric.name for metric in metrics_for(task_of(labels)) if metric.validated]
    task = "regression" if labels.is_regression else "classification"
    if params.metric not in known:
        raise ParamsError(f"train.metric: {params.metric!r} is not a metric of {task}.", f"Choose one of {', '.join(known)}.")
    if labels.is_regression and (params.class_weights is not None or params.label_smoothing):
        key = "class_weights" if params.class_weights is not None else "label_smoothing"
        raise ParamsError(f"train.{key}: the labels are numbers, and regression has no classes.", f"Remove train.{key}.")
    if isinstance(params.class_weights, dict) and (unknown := set(params.class_weights) - set(labels.names or ())):
        raise ParamsError(f"train.class_weights: {min(unknown)!r} is not a class.", f"The classes are {', '.join(labels.names or ())}.")


def check_fit(inputs: Inputs, config: PretrainedConfig) -> None:
    """Check that the data fit the model: on a GPU, an index out of range ends in an unclear CUDA error.

    Raises:
        ParamsError: A row is too long for the model, or holds an id outside of its vocabulary.
    """
    for split in (inputs.train, inputs.validation):
        longest, highest = int(split.lengths.max()), int(split.values["input_ids"].max())
        positions = getattr(config, "max_position_embeddings", None)  # GPT-2's configuration stores it by another name
        limit = token_limit({**config.to_dict(), "max_position_embeddings": positions})
        if limit is not None and longest > limit:
            raise ParamsError(f"model: it has {limit} positions, but a row has {longest} tokens.", f"Set tokenize.max_length to {limit}.")
        if highest >= config.vocab_size:
            raise ParamsError(
                f"model: its highest token id is {config.vocab_size - 1}, but the data contain the id {highest}.",
                "Set tokenize.tokenizer to the tokenizer of the model.",
            )


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
