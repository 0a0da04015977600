"""Latency of one row: how long an exported model takes on this machine.

``python -m tuneline.results.latency MODEL FOLDER SPLIT`` prints the 95th percentile in milliseconds. The
promotion gate runs it as a program of its own, so that ONNX Runtime's threads and memory do not stay in the
flow.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from tuneline.core.tables import SplitReader
from tuneline.model.batches import Batch
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.runtime.terminal import say

MAX_CALLS = 200
MAX_SECONDS = 5.0
WARM_UP = 3


def call_seconds(call: Callable[[Batch], object], rows: Sequence[Batch]) -> Iterator[float]:
    """Yield how long the call for each row takes, after ``WARM_UP`` calls and for at most ``MAX_SECONDS``."""
    for row in rows[:WARM_UP]:
        call(row)
    deadline = time.perf_counter() + MAX_SECONDS
    for row in rows:
        started = time.perf_counter()
        call(row)
        ended = time.perf_counter()
        yield ended - started
        if ended > deadline:
            return


def main(model: Path, folder: Path, split: str) -> None:
    """Measure one row at a time on one core, as on a busy server.

    The rows are evenly spread over the split; of a small one, they are measured more than once.
    """
    from tuneline.onnx.session import OnnxClassifier

    data = TokenizedSplit.read(SplitReader.open(folder, split, made_by="tokenize"))
    numbers = np.linspace(0, len(data) - 1, MAX_CALLS).astype(np.int64)
    rows = [data.pad(row, pad_token_id=0) for row in np.split(numbers, MAX_CALLS)]  # none is padded
    seconds = list(call_seconds(OnnxClassifier(model, intra_op_threads=1).logits, rows))
    say(f"{1000 * np.percentile(seconds, 95):.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
