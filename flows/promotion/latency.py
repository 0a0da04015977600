"""Measures how long an ONNX model takes for one row: ``python latency.py model.onnx rows.parquet`` prints milliseconds as JSON.

A program of its own, so that ONNX Runtime's threads and memory are not the flow's. One core, as a busy server would have.
"""

import json
import sys
import time

import numpy as np
import onnxruntime
import pyarrow.parquet as pq

ROWS = 200
SECONDS = 5.0
WARM_UP = 5


def measure(model: str, rows: str) -> dict[str, float]:
    """Runs rows spread over the file one at a time, for at most ``SECONDS``."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    table = pq.read_table(rows, columns=names)
    chosen = np.linspace(0, table.num_rows - 1, min(ROWS, table.num_rows)).astype(int)
    batches = [{name: np.array([table[name][row].as_py()], dtype=np.int64) for name in names} for row in chosen.tolist()]
    for batch in batches[:WARM_UP]:
        session.run(None, batch)
    taken, until = [], time.perf_counter() + SECONDS
    for batch in batches:
        started = time.perf_counter()
        session.run(None, batch)
        taken.append((time.perf_counter() - started) * 1000)
        if time.perf_counter() > until:
            break
    return {"p50": float(np.percentile(taken, 50)), "p95": float(np.percentile(taken, 95)), "rows": len(taken)}


if __name__ == "__main__":
    onnxruntime.disable_telemetry_events()
    print(json.dumps(measure(sys.argv[1], sys.argv[2])))
