"""How long the exported models take here: measured while the report is written, because it belongs to the machine, not to the model."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tuneline.cli.report.reading import read_json
from tuneline.files import write_json
from tuneline.paths import ONNX, TIMING, TOKENIZED, split_file

NOTE = TIMING / "latency.json"
BATCHES = (1, 32)
SECONDS = 1.5
"""For each model and batch size."""
MOST_CALLS = 200
ROWS = 640


@dataclass(frozen=True)
class Latency:
    """Calls of one model with batches of one size.

    Attributes:
        precision: Of the model.
        batch_size: Rows in a call.
        p50_ms, p95_ms: Milliseconds of a call.
        rows_per_second: Over all calls.
    """

    precision: str
    batch_size: int
    p50_ms: float
    p95_ms: float
    rows_per_second: float


@dataclass(frozen=True)
class Latencies:
    """All that was measured, and with how many threads."""

    threads: int
    measured: list[Latency]


def measure(root: Path, split: str) -> Latencies | None:
    """Calls every exported model on rows of the reported split, a few seconds in all, and notes the figures in ``reports/timing``.

    Returns:
        ``None`` where there are no models or no rows.
    """
    from tuneline.batches import TokenizedSplit
    from tuneline.onnx.session import OnnxClassifier, threads

    record = read_json(root / ONNX / "export.json")
    rows = split_file(root / TOKENIZED, split)
    if record is None or not record.get("models") or not rows.is_file():
        return None
    data = TokenizedSplit.read(rows)
    chosen = np.linspace(0, len(data) - 1, min(ROWS, len(data))).astype(np.int64)
    measured = []
    for precision, model in record["models"].items():
        classifier = OnnxClassifier(root / ONNX / model["file"])
        for size in BATCHES:
            batches = [data.pad(part, record["pad_token_id"]) for part in cut(chosen, size)]
            measured.append(summed_up(precision, size, list(timed(classifier.logits, batches))))
    found = Latencies(threads(), measured)
    write_json(root / NOTE, asdict(found))
    return found


def cut(rows: np.ndarray, size: int) -> list[np.ndarray]:
    """Whole batches of rows; one smaller one where there are not enough."""
    whole = len(rows) // size * size
    return [rows[start : start + size] for start in range(0, whole, size)] or [rows]


def timed(call: Callable[[Any], Any], batches: list[Any]) -> Iterator[tuple[int, float]]:
    """Rows and seconds of each call, after a few that warm up."""
    for batch in batches[:3]:
        call(batch)
    until = time.perf_counter() + SECONDS
    for number in range(MOST_CALLS):
        batch = batches[number % len(batches)]
        started = time.perf_counter()
        call(batch)
        ended = time.perf_counter()
        yield len(batch["input_ids"]), ended - started
        if ended > until:
            return


def summed_up(precision: str, size: int, calls: list[tuple[int, float]]) -> Latency:
    """Percentiles of some calls."""
    rows, seconds = np.array(calls).T
    p50, p95 = np.percentile(seconds * 1000, [50, 95])
    return Latency(precision, size, round(float(p50), 3), round(float(p95), 3), round(float(rows.sum() / seconds.sum()), 1))


def last_measured(root: Path) -> Latencies | None:
    """What ``measure`` noted last; ``None`` where it never ran, or the models are younger."""
    note, made = root / NOTE, root / ONNX / "export.json"
    found = read_json(note)
    if found is None or not made.exists() or os.path.getmtime(note) < os.path.getmtime(made):  # noqa: PTH204 - two of a kind
        return None
    return Latencies(found["threads"], [Latency(**one) for one in found["measured"]])
