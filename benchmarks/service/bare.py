"""The model in a loop, without a server: prints its milliseconds per row as JSON."""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from benchmarks.service.rows import read_rows
from tuneline.serve.text_classifier import TextClassifier

WARM_UP = 50


def main() -> None:
    """Predict one row after the other, tokenization included, for some seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--precision", required=True)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    model = TextClassifier.load(options.model, options.precision, options.threads)
    rows = read_rows(options.model, options.rows)
    for row in rows[:WARM_UP]:
        model.predict([row], 1)

    milliseconds = []
    started = time.perf_counter()
    while time.perf_counter() - started < options.seconds:
        row = rows[len(milliseconds) % len(rows)]
        before = time.perf_counter()
        model.predict([row], 1)
        milliseconds.append(1000 * (time.perf_counter() - before))
    print(json.dumps(np.quantile(milliseconds, [0.5, 0.95, 0.99]).tolist()))


if __name__ == "__main__":
    main()
