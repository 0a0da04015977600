"""Measure how long an ONNX model takes for one row: ``python latency.py model.onnx rows.parquet`` prints milliseconds as JSON.

A program of its own, so that ONNX Runtime's threads and memory do not stay in the flow. It uses one core, as on a busy server.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

from tuneline.batches import TokenizedSplit
from tuneline.onnx.session import OnnxClassifier

ROWS = 200
SECONDS = 5.0
WARM_UP = 5


def measure(model: Path, rows: Path) -> dict[str, float]:
    """Predict ``ROWS`` rows spread over the file one at a time, for at most ``SECONDS``.

    Returns:
        ``p50`` and ``p95`` in milliseconds, and the number of measured ``rows``.
    """
    classifier = OnnxClassifier(model, intra_op_threads=1)
    data = TokenizedSplit.read(rows)
    chosen = np.linspace(0, len(data) - 1, min(ROWS, len(data))).astype(np.int64)
    batches = [data.pad(row, pad_token_id=0) for row in chosen[:, None]]  # one row each: nothing is padded
    for batch in batches[:WARM_UP]:
        classifier.logits(batch)
    milliseconds, until = [], time.perf_counter() + SECONDS
    for batch in batches:
        started = time.perf_counter()
        classifier.logits(batch)
        milliseconds.append((time.perf_counter() - started) * 1000)
        if time.perf_counter() > until:
            break
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return {"p50": float(p50), "p95": float(p95), "rows": len(milliseconds)}


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), Path(sys.argv[2]))))
