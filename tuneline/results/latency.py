"""Latency of an exported model: how long its calls take on this machine.

``python -m tuneline.results.latency MODEL FOLDER SPLIT`` prints the latency of one row at a time on one core
as JSON. The promotion gate runs it as a program of its own, so that ONNX Runtime's threads and memory do not
stay in the flow.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tuneline.core.tables import SplitReader
from tuneline.model.batches import Batch
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.runtime.terminal import say

if TYPE_CHECKING:
    from tuneline.onnx.session import OnnxClassifier

MAX_ROWS = 640
"""Rows of a split that are measured, evenly spread over it."""
MAX_CALLS = 200
WARM_UP = 3


@dataclass(frozen=True)
class Latency:
    """Latency of one model with batches of one size.

    Attributes:
        batch_size: Rows of a call.
        p50_ms: Median duration of a call in milliseconds.
        p95_ms: 95th percentile of the durations in milliseconds.
        rows_per_second: Rows of all calls divided by the seconds of all calls.
    """

    batch_size: int
    p50_ms: float
    p95_ms: float
    rows_per_second: float


def measure_latency(
    model: "OnnxClassifier", data: TokenizedSplit, batch_size: int, pad_token_id: int, seconds: float
) -> Latency:
    """Measure a model on rows of a split, for some seconds and at most ``MAX_CALLS`` calls."""
    rows = np.linspace(0, len(data) - 1, min(MAX_ROWS, len(data))).astype(np.int64)
    batches = [data.pad(batch_rows, pad_token_id) for batch_rows in full_batches(rows, batch_size)]

    # Two arrays with one entry per call.
    call_rows, call_seconds = np.array(list(time_calls(model.logits, batches, seconds))).T
    p50, p95 = np.percentile(call_seconds * 1000, [50, 95])
    rows_per_second = call_rows.sum() / call_seconds.sum()
    return Latency(
        batch_size,
        p50_ms=round(float(p50), 3),
        p95_ms=round(float(p95), 3),
        rows_per_second=round(float(rows_per_second), 1),
    )


def full_batches(rows: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    """Return the full batches of rows; one smaller batch if there are too few rows for a full one."""
    if len(rows) < size:
        return [rows]
    whole = len(rows) // size * size
    return [rows[start : start + size] for start in range(0, whole, size)]


def time_calls(
    call: Callable[[Batch], object], batches: Sequence[Batch], seconds: float
) -> Iterator[tuple[int, float]]:
    """Yield rows and seconds of each call, after ``WARM_UP`` calls."""
    for batch in batches[:WARM_UP]:
        call(batch)
    deadline = time.perf_counter() + seconds
    for number in range(MAX_CALLS):
        batch = batches[number % len(batches)]
        started = time.perf_counter()
        call(batch)
        ended = time.perf_counter()
        yield len(batch["input_ids"]), ended - started
        if ended > deadline:
            return


def main(model: Path, folder: Path, split: str) -> None:
    """Measure one row at a time on one core, as on a busy server, for at most five seconds.

    A single row needs no padding.
    """
    from tuneline.onnx.session import OnnxClassifier

    data = TokenizedSplit.read(SplitReader.open(folder, split, made_by="tokenize"))
    latency = measure_latency(OnnxClassifier(model, intra_op_threads=1), data, 1, pad_token_id=0, seconds=5.0)
    say(json.dumps(asdict(latency)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
