"""Throughput without a server: how sessions, threads and batches share the cores."""

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tuneline.serve.text_classifier import TextClassifier

LAYOUTS = {"1 session x 2 threads": (1, 2), "2 sessions x 1 thread": (2, 1)}
"""Sessions, each with a thread that calls it, and threads of a session."""
BATCH_SIZES = (1, 4, 8, 16, 32)
ROWS = 192

TextRow = tuple[str, ...]


def rows_per_second(models: Sequence[TextClassifier], batches: Sequence[Sequence[TextRow]]) -> float:
    """Return the throughput of models that take batches in turns, each in a thread of its own."""

    def predict(number: int) -> None:
        for batch in batches[number :: len(models)]:
            models[number].predict(batch, len(batch))

    started = time.perf_counter()
    with ThreadPoolExecutor(len(models)) as pool:
        list(pool.map(predict, range(len(models))))
    return sum(len(batch) for batch in batches) / (time.perf_counter() - started)


def measure_layouts(model: Path, precisions: Sequence[str], rows: Sequence[TextRow], rounds: int) -> None:
    """Measure each layout with each size of batches in alternation, and print the medians."""
    rows = rows[:ROWS]
    orders = {"as they come": rows, "by length": sorted(rows, key=lambda row: sum(map(len, row)))}
    for precision in precisions:
        models = {}
        for name, (sessions, threads) in LAYOUTS.items():
            models[name] = [TextClassifier.load(model, precision, threads) for _ in range(sessions)]
            rows_per_second(models[name], [rows[:64]] * sessions)

        speeds: dict[tuple[str, str, int], list[float]] = {}
        for _ in range(rounds):
            for size in BATCH_SIZES:
                for order, ordered in orders.items():
                    batches = [ordered[start : start + size] for start in range(0, len(rows), size)]
                    for name in LAYOUTS:
                        speed = rows_per_second(models[name], batches)
                        speeds.setdefault((name, order, size), []).append(speed)
        print_layouts(precision, speeds, rounds)


def print_layouts(precision: str, speeds: dict[tuple[str, str, int], list[float]], rounds: int) -> None:
    """Print rows/s of each layout."""
    table = Table(title=f"{precision}: rows/s, medians of {rounds}", title_justify="left")
    table.add_column("layout")
    table.add_column("rows")
    for size in BATCH_SIZES:
        table.add_column(f"batch {size}", justify="right")
    for name, order in dict.fromkeys((name, order) for name, order, _ in speeds):
        medians = [f"{statistics.median(speeds[name, order, size]):,.0f}" for size in BATCH_SIZES]
        table.add_row(name, order, *medians)
    Console(width=110).print(table)
