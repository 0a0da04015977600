"""Tokenized rows and padded batches of them, for torch and ONNX Runtime. Does not import torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuneline.model.tokens.long_text import Answer

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def row_offsets(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return where each row begins in the values of all rows, and the end of the last; ``(rows + 1,)``."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


def joined_ranges(starts: NDArray[np.integer], lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the numbers of ranges that begin at ``starts``, one range after the other."""
    # how far each range is from its place in the result, added to the places
    places = row_offsets(lengths)
    numbers: NDArray[np.int64] = np.repeat(starts - places[:-1], lengths) + np.arange(places[-1])
    return numbers


def document_values(
    values: NDArray[np.float32], windows: NDArray[np.int64], answer: Answer | None
) -> NDArray[np.float32]:
    """Return the answers of documents, float32 ``(documents, outputs)``.

    Args:
        values: Logits or features of the windows, one document after the other; ``(windows, outputs)``.
        windows: Number of windows of each document, at least 1; ``(documents,)``.
        answer: Mean, or maximum of each output; ``None``: each document is one window.
    """
    if answer is None:
        return values
    starts = np.cumsum(windows) - windows
    result: NDArray[np.float32]
    if answer == "max":
        result = np.maximum.reduceat(values, starts, axis=0)
    else:
        result = np.add.reduceat(values, starts, axis=0)
        result /= windows[:, np.newaxis]
    return result


def document_tensor(values: "Tensor", windows: NDArray[np.int64], answer: Answer | None) -> "Tensor":
    """Return the same as ``document_values``, with gradients to all windows."""
    import torch

    if answer is None or not len(windows):
        return values
    answers = []
    for document in values.split(windows.tolist()):  # type: ignore[no-untyped-call]
        part: Any = document
        answers.append(part.amax(dim=0) if answer == "max" else part.mean(dim=0))
    return torch.stack(answers)


@dataclass(frozen=True)
class RowWindows:
    """Windows of rows: a text that is longer than the model is several inputs of it, and gets one answer.

    Attributes:
        first: Number of the first window of each row, and of all windows; int64 of shape ``(rows + 1,)``.
        offsets: Where each window begins, and the end of the last one, as the offsets of rows; int64 of shape
            ``(windows + 1,)``.
        answer: How the logits of the windows of a row become its own.
    """

    first: NDArray[np.int64]
    offsets: NDArray[np.int64]
    answer: Answer

    def counts(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the number of windows of each of these rows."""
        counts: NDArray[np.int64] = self.first[1:][rows] - self.first[:-1][rows]
        return counts

    def numbers(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the numbers of the windows of these rows, one row after the other."""
        return joined_ranges(self.first[:-1][rows], self.counts(rows))

    def take(self, rows: NDArray[np.integer]) -> "RowWindows":
        """Return the windows of these rows, whose tokens are then one row after the other."""
        numbers = self.numbers(rows)
        lengths = self.offsets[1:][numbers] - self.offsets[:-1][numbers]
        return RowWindows(row_offsets(self.counts(rows)), row_offsets(lengths), self.answer)


Batch = dict[str, NDArray[np.int64]]


@dataclass(frozen=True)
class TokenizedRows:
    """Tokenized rows as ragged arrays, without a Python object per row.

    A row is one input of the model, or several: its windows.

    Attributes:
        values: Concatenated values of all rows, by model input.
        offsets: Row ``i`` is ``values[name][offsets[i] : offsets[i + 1]]``; int64 of shape ``(rows + 1,)``.
        windows: Windows of the rows, if they are divided into windows.
    """

    values: Mapping[str, NDArray[np.integer]]
    offsets: NDArray[np.int64]
    windows: RowWindows | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row, with the special tokens, and all windows of a row; int64 of shape ``(rows,)``.

        They are computed anew at each access.
        """
        return np.diff(self.offsets)

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest input of the model: of a row, or of a window."""
        offsets = self.offsets
        if self.windows is not None:
            offsets = self.windows.offsets
        return int(np.diff(offsets).max(initial=0))

    def lengths_of(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the tokens of the rows with these numbers."""
        lengths: NDArray[np.int64] = self.offsets[1:][rows] - self.offsets[:-1][rows]
        return lengths

    @property
    def window_counts(self) -> NDArray[np.int64] | None:
        """Number of windows of each row, int64 of shape ``(rows,)``; ``None``: each row is one input."""
        return None if self.windows is None else np.diff(self.windows.first)

    def input_lengths_of(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the tokens of each input of the model that these rows are, one row after the other."""
        if self.windows is None:
            return self.lengths_of(rows)
        numbers = self.windows.numbers(rows)
        lengths: NDArray[np.int64] = self.windows.offsets[1:][numbers] - self.windows.offsets[:-1][numbers]
        return lengths

    def answers(self, values: NDArray[np.float32], rows: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return one answer for each of these rows, float32 ``(rows, outputs)``.

        ``values`` are what the model computed of their inputs, as ``pad`` returns them.
        """
        if self.windows is None:
            return values
        return document_values(values, self.windows.counts(rows), self.windows.answer)

    def pad(self, rows: NDArray[np.int64], pad_token_id: int, tokens: int | None = None) -> Batch:
        """Pad the inputs of the model that rows are, on the right.

        Args:
            rows: Numbers of the rows.
            pad_token_id: Value of ``input_ids`` where a row has no token; other inputs are 0 there.
            tokens: Length of the padded rows, at least the tokens of the longest row; ``None`` for just
                these.

        Returns:
            The model inputs by name, int64 of shape ``(rows, tokens)``; with windows, ``(windows, tokens)``,
            one row after the other.
        """
        lengths = self.input_lengths_of(rows)
        if self.windows is None:
            starts = self.offsets[rows]
        else:
            starts = self.windows.offsets[self.windows.numbers(rows)]
        if tokens is None:
            tokens = int(lengths.max(initial=0))

        # where the padded rows have tokens, and the places of these tokens in ``values``
        is_token = np.arange(tokens) < lengths[:, None]
        source = (starts[:, None] + np.arange(tokens))[is_token]

        batch = {}
        for name, values in self.values.items():
            padding = pad_token_id if name == "input_ids" else 0
            padded = np.full(is_token.shape, padding, dtype=np.int64)
            padded[is_token] = values[source]
            batch[name] = padded
        return batch


USUAL_TOKENS = 512
"""Tokens of a model input for which the sizes of batches are meant."""


def inputs_at_once(batch_size: int, longest: int) -> int:
    """Return the model inputs of a batch that is computed without gradients: fewer if they are long.

    Attention takes memory by the square of the length: 64 inputs of 8,192 tokens would take as much as
    16,384 of 512.
    """
    if longest <= USUAL_TOKENS:
        return batch_size
    return max(1, batch_size * USUAL_TOKENS**2 // longest**2)


def length_sorted_batches(
    lengths: NDArray[np.int64], batch_size: int, windows: NDArray[np.int64] | None = None
) -> list[NDArray[np.int64]]:
    """Return row numbers in batches of similar length, longest first.

    Sorting avoids almost all padding, and the longest batch first shows at once if memory suffices. Every row
    is in exactly one batch. Rows of the same length keep their order.

    Args:
        lengths: Tokens of each row, ``(rows,)``.
        batch_size: Rows of a batch at most, or windows of its rows, of at most ``USUAL_TOKENS`` tokens each.
            A row with more windows is a batch alone.
        windows: Number of windows of each row; ``None`` for one each.
    """
    order = np.argsort(-lengths, kind="stable")
    if windows is None:
        windows = np.ones(len(lengths), dtype=np.int64)

    # the longest input of each row and of those behind it: the windows of a row are about equally long
    inputs = -(-lengths[order] // windows[order])
    longest = np.maximum.accumulate(inputs[::-1])[::-1]

    batches = []
    ends = row_offsets(windows[order])  # windows before each row, and of all rows
    start = 0
    while start < len(order):
        size = inputs_at_once(batch_size, int(longest[start]))
        end = int(np.searchsorted(ends, ends[start] + size, side="right")) - 1
        end = max(end, start + 1)
        batches.append(order[start:end])
        start = end
    return batches


def compute_by_length(
    compute: Callable[[NDArray[np.int64]], NDArray[np.float32]],
    lengths: NDArray[np.int64],
    batch_size: int,
    out: NDArray[np.float32],
    *,
    windows: NDArray[np.int64] | None = None,
    advance: Callable[[int], object] = int,
) -> NDArray[np.float32]:
    """Compute the outputs of all rows by a model, with rows of similar length in one batch.

    Args:
        compute: Returns the outputs of a batch, float32 ``(batch, outputs)``, from its row numbers.
        lengths: Tokens of each row, int64 ``(rows,)``.
        batch_size: Rows of a batch at most, or windows of its rows.
        out: Array for the outputs, float32 ``(rows, outputs)``; it may be mapped to a file.
        windows: Number of windows of each row; ``None`` for one each.
        advance: Called with the number of rows after each batch.

    Returns:
        ``out``, with the outputs in the order of the rows.
    """
    computed = np.zeros(len(lengths), dtype=np.int8)
    for rows in length_sorted_batches(lengths, batch_size, windows):
        out[rows] = compute(rows)
        computed[rows] += 1
        advance(len(rows))

    # Metrics of a row that was skipped, or counted twice, would be wrong without any sign of it.
    wrong = np.count_nonzero(computed != 1)
    if wrong:
        raise AssertionError(f"{wrong} rows of {len(lengths)} were not computed exactly once")
    return out


def compute_outputs(
    model: "Callable[[dict[str, Tensor]], Tensor]",
    rows: TokenizedRows,
    out: NDArray[np.float32],
    *,
    pad_token_id: int,
    device: "torch.device",
    batch_size: int,
    advance: Callable[[int], object] = int,
) -> NDArray[np.float32]:
    """Compute the outputs of rows without gradients, with rows of similar length in one batch.

    Args:
        model: Returns the outputs of a batch, of shape ``(batch, outputs)``, from its inputs by name, int64
            of shape ``(batch, tokens)`` on the device.
        rows: The rows. A row in several windows gets one answer from the outputs of its windows.
        out: Array for the outputs, float32 ``(rows, outputs)``; it may be mapped to a file.
        pad_token_id: Value of ``input_ids`` where a row has no token.
        device: Device of the model.
        batch_size: Rows of a batch at most, or windows of its rows.
        advance: Called with the number of rows after each batch.

    Returns:
        ``out``, with the outputs in the order of the rows.
    """
    import torch

    def compute(batch: NDArray[np.int64]) -> NDArray[np.float32]:
        inputs = {}
        for name, padded in rows.pad(batch, pad_token_id).items():
            inputs[name] = torch.from_numpy(padded).to(device)
        values: NDArray[np.float32] = model(inputs).float().cpu().numpy()
        return rows.answers(values, batch)

    with torch.inference_mode():
        return compute_by_length(
            compute, rows.lengths, batch_size, out, windows=rows.window_counts, advance=advance
        )
