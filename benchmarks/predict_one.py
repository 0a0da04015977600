"""Measure ``TextClassifier.predict_one`` over many calls of random lengths: memory, and time per call.

Each setting of ONNX Runtime's memory runs in a process of its own with the same texts: with its arena, which
keeps what it once had, and without. ``--overhead`` compares ``predict_one`` with the bare session on the same
tokens at batch 1, and ``predict`` with a bare loop at batch 32, in alternation.

Run in the root of the project, on an otherwise idle machine: ``python -m benchmarks.predict_one``.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from benchmarks.service.rows import read_rows
from tuneline.model.tokens.batches import Batch
from tuneline.onnx.session import open_session, session_options
from tuneline.onnx.usage import exported_file
from tuneline.serve.text_classifier import TextClassifier

POINTS = 5
"""Times at which memory is read."""
BATCH = 32


def parse() -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=Path("models/onnx"))
    parser.add_argument(
        "--rows", type=Path, default=Path("data/raw/test.parquet"), help="where words are from"
    )
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--child", choices=["arena", "no arena"], help=argparse.SUPPRESS)
    return parser.parse_args()


def load(options: argparse.Namespace, *, arena: bool) -> TextClassifier:
    """Load the model with a setting of the memory."""
    model = TextClassifier.load(options.model, threads=options.threads)
    settings = session_options(options.threads)
    settings.enable_cpu_mem_arena = arena
    model.classifier._session = open_session(exported_file(options.model), settings)
    return model


def measure_memory(options: argparse.Namespace) -> None:
    """Print as JSON the MB at the points, and the quantiles of the milliseconds per call."""
    model = load(options, arena=options.child == "arena")
    words = " ".join(text for row in read_rows(options.model, options.rows) for text in row).split()
    draw = random.Random(42)  # noqa: S311
    process = psutil.Process()
    megabytes = [process.memory_info().rss / 2**20]
    milliseconds = []
    for number in range(1, options.calls + 1):
        lengths = [draw.randint(1, model.max_length) for _ in model.text_columns]
        row = tuple(" ".join(draw.choices(words, k=length)) for length in lengths)
        started = time.perf_counter()
        model.predict_one(row)
        milliseconds.append(1000 * (time.perf_counter() - started))
        if number * POINTS % options.calls < POINTS:
            megabytes.append(process.memory_info().rss / 2**20)
    quantiles = statistics.quantiles(milliseconds, n=100)
    result = {"megabytes": megabytes, "mean": statistics.mean(milliseconds)}
    print(json.dumps({**result, "p50": quantiles[49], "p99": quantiles[98]}))


def measure_overhead(options: argparse.Namespace) -> None:
    """Print what ``predict_one`` adds to the session, and the share of the bare loop's rows/s."""
    model = load(options, arena=True)
    session = model.classifier._session
    rows = read_rows(options.model, options.rows)[:320]
    encoded = [model.encode([row]) for row in rows]
    singles = [_inputs(model, each.pad([0], model.pad_token_id)) for each in encoded]

    bare, whole, tokenized = [], [], []
    for row, inputs in zip(rows, singles, strict=True):
        bare.append(seconds(session.run, ["logits"], inputs))
        whole.append(seconds(model.predict_one, row))
        tokenized.append(seconds(model.encode, [row]))
    added = [1000 * (one - other) for one, other in zip(whole, bare, strict=True)]
    print(
        f"batch 1: bare session {1000 * statistics.median(bare):.3f} ms, predict_one"
        f" {1000 * statistics.median(whole):.3f} ms, added {statistics.median(added):.3f} ms, of which the"
        f" tokenizer {1000 * statistics.median(tokenized):.3f} ms (medians)"
    )

    # the same batches, from the same texts
    ratios = []
    speeds = []
    for _ in range(9):
        loop = seconds(bare_loop, model, rows)
        project = seconds(model.predict, rows, BATCH)
        ratios.append(loop / project)
        speeds.append((len(rows) / loop, len(rows) / project))
    fastest = [max(speed) for speed in zip(*speeds, strict=True)]
    print(
        f"batch {BATCH}: predict has {statistics.median(ratios):.3f} of the bare loop's rows/s (median of 9;"
        f" {min(ratios):.3f} to {max(ratios):.3f}); at best {fastest[1]:.0f} and {fastest[0]:.0f} rows/s"
    )


def bare_loop(model: TextClassifier, rows: list[tuple[str, ...]]) -> None:
    """Predict as a program without this project does: batches in the order of the rows, padded."""
    for start in range(0, len(rows), BATCH):
        encoded = model.encode(rows[start : start + BATCH])
        batch = encoded.pad(list(range(len(encoded))), model.pad_token_id)
        model.classifier._session.run(["logits"], _inputs(model, batch))


def _inputs(model: TextClassifier, batch: Batch) -> Batch:
    return {name: batch[name] for name in model.classifier.inputs}


def seconds(call: Callable[..., object], *arguments: object) -> float:
    """Return how long a call takes."""
    started = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    options = parse()
    if options.overhead:
        measure_overhead(options)
        return
    if options.child:
        measure_memory(options)
        return
    for setting in ("arena", "no arena"):
        command = [sys.executable, "-m", "benchmarks.predict_one", "--child", setting]
        command += ["--model", str(options.model), "--rows", str(options.rows)]
        command += ["--calls", str(options.calls), "--threads", str(options.threads)]
        print(setting, subprocess.run(command, capture_output=True, text=True, check=True).stdout, flush=True)


if __name__ == "__main__":
    main()
