"""Measure the memory of ONNX Runtime over batches of random sizes, and what less memory costs in speed.

Each setting of its memory runs in a process of its own: once with the largest batch alone, and once with many
batches of 1 to 64 rows of 4 to 128 tokens. Then sessions with all settings take turns with the same batches;
the ratio of each pair of times counts. The setting of the project is ``tuneline.onnx.session``.

The model is a BERT with random weights, or that of ``--checkpoint``. Run in the root of the project, on an
otherwise idle machine: ``python -m benchmarks.memory --checkpoint FOLDER``.
"""

import argparse
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import psutil
from rich.console import Console
from rich.table import Table
from transformers.utils.logging import disable_progress_bar

from benchmarks.inference import INPUTS, VOCABULARY, Backend, model_of
from tuneline.core.stage.machine import threads
from tuneline.model.tokens.batches import Batch
from tuneline.onnx.graph import save_model, to_onnx
from tuneline.onnx.session import session_options

MOST_ROWS, MOST_TOKENS = 64, 128
SETTINGS = {
    "defaults of ONNX Runtime": {"arena": True, "pattern": True},
    "no memory pattern": {"arena": True, "pattern": False},
    "no arena": {"arena": False, "pattern": True},
    "no arena, no memory pattern": {"arena": False, "pattern": False},
    "arena as requested": {"arena": True, "pattern": True, "as_requested": True},
    "arena as requested, no memory pattern": {"arena": True, "pattern": False, "as_requested": True},
    "arena shrinks after each batch": {"arena": True, "pattern": True, "shrinks": True},
    "arena shrinks, no memory pattern": {"arena": True, "pattern": False, "shrinks": True},
}
POINTS = 5
"""Counts of batches at which memory is read."""


def batches(count: int, seed: int) -> list[tuple[int, int]]:
    """Return the rows and tokens of random batches."""
    generator = np.random.default_rng(seed)
    rows = generator.integers(1, MOST_ROWS + 1, count)
    tokens = generator.integers(4, MOST_TOKENS + 1, count)
    return list(zip(rows.tolist(), tokens.tolist(), strict=True))


def batch_of(rows: int, tokens: int) -> Batch:
    """Return a batch without padding."""
    ids = np.random.default_rng(rows * tokens).integers(1000, VOCABULARY, (rows, tokens))
    return dict(zip(INPUTS, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))


def backend(model: Path, setting: dict[str, bool]) -> Backend:
    """Load a model with a setting of the memory."""
    options = session_options()
    options.enable_cpu_mem_arena = setting["arena"]
    options.enable_mem_pattern = setting["pattern"]
    run_options = onnxruntime.RunOptions()
    if setting.get("shrinks"):
        run_options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    if setting.get("as_requested"):
        memory = onnxruntime.OrtMemoryInfo(
            "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
        )
        arena = onnxruntime.OrtArenaCfg({"arena_extend_strategy": 1})
        onnxruntime.create_and_register_allocator(memory, arena)
        options.add_session_config_entry("session.use_env_allocators", "1")
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def run(batch: Batch) -> Any:
        return session.run(["logits"], batch, run_options)[0]

    return run


def megabytes() -> float:
    """Return the memory of this process in MB."""
    return float(psutil.Process().memory_info().rss / 1e6)


def measure_memory(model: Path, name: str, calls: int, seed: int) -> list[float]:
    """Return the memory in MB after loading, after the largest batch, or ``POINTS`` times over batches."""
    run = backend(model, SETTINGS[name])
    points = [megabytes()]
    if calls == 0:
        run(batch_of(MOST_ROWS, MOST_TOKENS))
        return [*points, megabytes()]
    for number, (rows, tokens) in enumerate(batches(calls, seed), start=1):
        run(batch_of(rows, tokens))
        if number * POINTS % calls < POINTS:
            points.append(megabytes())
    return points


def in_a_process(model: Path, name: str, calls: int, seed: int) -> list[float]:
    """Measure the memory in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", "--child", str(model), name, str(calls), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    points: list[float] = json.loads(done.stdout.splitlines()[-1])
    return points


def measure_speed(
    model: Path, rounds: int, seed: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Return the seconds of each setting over the first one's, for each batch.

    The settings take turns, each time starting with another one.
    """
    names = [name for name, setting in SETTINGS.items() if not setting.get("as_requested")]
    backends = {name: backend(model, SETTINGS[name]) for name in names}
    ratios: dict[str, list[float]] = {name: [] for name in names}
    for turn, (rows, tokens) in enumerate(batches(rounds, seed)):
        batch = batch_of(rows, tokens)
        seconds = {}
        for offset in range(len(names)):
            name = names[(turn + offset) % len(names)]
            started = clock()
            backends[name](batch)
            seconds[name] = clock() - started
        for name in names:
            ratios[name].append(seconds[name] / seconds[names[0]])
    return ratios


def report(memory: dict[str, tuple[list[float], list[float]]], ratios: dict[str, list[float]]) -> None:
    """Print one row for each setting."""
    table = Table(title=f"MB, and time relative to the first: {threads()} threads", title_justify="left")
    for title in ("setting", "loaded", "largest batch", "over the batches", "last / largest", "median time"):
        table.add_column(title, justify="left" if title == "setting" else "right")
    for name, (largest, points) in memory.items():
        course = ", ".join(f"{value:.0f}" for value in points[1:])
        ratio = f"{statistics.median(ratios[name]):.3f}" if name in ratios else ""
        last = f"{points[-1] / largest[-1]:.2f}"
        table.add_row(name, f"{largest[0]:.0f}", f"{largest[-1]:.0f}", course, last, ratio)
    Console(width=140).print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--checkpoint", default=None, help="folder of a BERT checkpoint, instead of --layers and --hidden"
    )
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--calls", type=int, default=2000, help="batches of which the memory is measured")
    parser.add_argument("--rounds", type=int, default=100, help="batches of which the time is measured")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        model, name, calls, seed = options.child
        print(json.dumps(measure_memory(Path(model), name, int(calls), int(seed))))
        return

    warnings.simplefilter("ignore")  # exporters warn about their own internals
    logging.disable(logging.WARNING)
    disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        exported = model_of(options)
        exported.set_attn_implementation("eager")
        model, *_ = save_model(to_onnx(exported, INPUTS, 20), Path(folder) / "model.onnx")
        memory = {}
        for name in SETTINGS:
            largest = in_a_process(model, name, 0, options.seed)
            memory[name] = largest, in_a_process(model, name, options.calls, options.seed)
        report(memory, measure_speed(model, options.rounds, options.seed))


if __name__ == "__main__":
    main()
