"""Rows of a request, and the batches in which they are computed.

The batches of a request depend on the request alone: its rows by length, as many as fit. So what it is
answered does not depend on who else asks, also with an int8 model whose digits depend on the batch.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tuneline.model.batches import RowWindows
from tuneline.model.row_offsets import row_offsets
from tuneline.onnx.exported_model import EncodedRows
from tuneline.program.text_classifier import TextClassifier

MOST_TOKENS = 512
"""Tokens of a batch at most, those of padding included; a row that has more is a batch of its own.

More are no faster on a processor, and make the others wait (docs/benchmarks.md).
"""


@dataclass(frozen=True)
class RowBatch:
    """Rows of one request that are computed together.

    Attributes:
        rows: Their numbers in the request.
        longest: Tokens of the longest input of the model.
        inputs: Inputs of the model that they are.
    """

    rows: tuple[int, ...]
    longest: int
    inputs: int

    @property
    def tokens(self) -> int:
        """Tokens of the batch, those of padding included."""
        return self.longest * self.inputs


@dataclass(eq=False)
class RowJob:
    """The rows of a request.

    Attributes:
        model: The model that was in production when the request came.
        rows: The rows, each tokenized alone.
        on_done: Called when no row is left, in the thread that computed the last one.
        deadline: When a row is computed no more, in seconds of ``time.monotonic``.
        most_tokens: Tokens of a batch at most; with 0, each row is a batch of its own.
        logits: The logits, ``(rows, outputs)``; those of failed rows mean nothing.
        failures: Why rows have no logits, by their numbers.
        is_cancelled: True if nobody waits for the answer any more.
    """

    model: TextClassifier
    rows: Sequence[EncodedRows]
    on_done: Callable[[], object]
    deadline: float
    most_tokens: int = MOST_TOKENS
    logits: NDArray[np.float32] = field(init=False)
    failures: dict[int, str] = field(default_factory=dict)
    is_cancelled: bool = False
    left: int = field(init=False)
    batches: deque[RowBatch] = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.logits = np.empty((len(self.rows), self.model.task.outputs), np.float32)
        self.left = len(self.rows)
        self.batches = deque(row_batches(self.rows, self.most_tokens))

    def finish(self, rows: Sequence[int], logits: NDArray[np.float32]) -> None:
        """Keep the logits of rows, ``(rows, outputs)``."""
        self.logits[list(rows)] = logits
        self._count(rows)

    def fail(self, rows: Sequence[int], reason: str) -> None:
        """Keep why rows have no logits."""
        self.failures.update(dict.fromkeys(rows, reason))
        self._count(rows)

    def _count(self, rows: Sequence[int]) -> None:
        with self._lock:
            self.left -= len(rows)
            is_done = self.left == 0 and len(rows) > 0
        if is_done:
            self.on_done()

    @property
    def is_late(self) -> bool:
        """True if its rows are computed no more."""
        return self.is_cancelled or time.monotonic() > self.deadline


def row_batches(rows: Sequence[EncodedRows], most_tokens: int = MOST_TOKENS) -> list[RowBatch]:
    """Divide the rows of a request into batches of similar length, the shortest first.

    A batch has ``most_tokens`` at most, or one row.
    """
    longest = [int(row.input_lengths_of(np.zeros(1, np.int64)).max()) for row in rows]
    inputs = [int(row.window_counts_of(np.zeros(1, np.int64))[0]) for row in rows]

    batches: list[RowBatch] = []
    for row in sorted(range(len(rows)), key=lambda row: longest[row]):
        last = batches[-1] if batches else None
        if last is not None and longest[row] * (last.inputs + inputs[row]) <= most_tokens:
            batches[-1] = RowBatch((*last.rows, row), longest[row], last.inputs + inputs[row])
        else:
            batches.append(RowBatch((row,), longest[row], inputs[row]))
    return batches


def joined_rows(rows: Sequence[EncodedRows]) -> EncodedRows:
    """Return rows that were tokenized one by one as one object."""
    if len(rows) == 1:
        return rows[0]
    values = {}
    for name in rows[0].values:
        values[name] = np.concatenate([row.values[name] for row in rows])
    offsets = row_offsets(np.concatenate([row.lengths for row in rows]))

    windows = None
    first = rows[0].windows
    if first is not None:
        window_lengths = [np.diff(row.windows.offsets) for row in rows if row.windows is not None]
        counts = np.array([len(lengths) for lengths in window_lengths], np.int64)
        windows = RowWindows(row_offsets(counts), row_offsets(np.concatenate(window_lengths)), first.answer)
    return EncodedRows(values, offsets, sum(row.truncated for row in rows), windows=windows)
