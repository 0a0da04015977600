"""Measure what it costs to bring files to the disk before they are renamed (tuneline/files): a checkpoint and a small state file.

``os.fsync`` is called or not, in alternation, on the file system of ``--folder``. All that is written is
brought to the disk between two measurements, so that none pays for the one before.

Run in the root of the project, with nothing else running: ``python -m benchmarks.durability``.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from rich.console import Console
from rich.table import Table

from tuneline.core.atomic_files import replace_directory, write_json

BLOCK = os.urandom(2**20)


def write_checkpoint(folder: Path, megabytes: int) -> None:
    """Write what a checkpoint consists of: weights, an optimizer of twice their size, small files."""
    with replace_directory(folder / "step") as partial:
        for name, size in (
            ("model.safetensors", megabytes // 3),
            ("optimizer.bin", megabytes - megabytes // 3),
        ):
            with (partial / name).open("wb") as file:
                for _ in range(size):
                    file.write(BLOCK)
        for name in ("complete.json", "progress.json", "random_states_0.pkl", "scheduler.bin"):
            (partial / name).write_bytes(BLOCK[:2000])


def seconds(write: Callable[[], None]) -> float:
    """Return the time of a call."""
    started = time.perf_counter()
    write()
    return time.perf_counter() - started


def measure(write: Callable[[], None], rounds: int) -> tuple[float, float]:
    """Return the median seconds of a call with and without ``os.fsync``."""
    with_it, without = [], []
    for _ in range(rounds):
        os.sync()
        with_it.append(seconds(write))
        os.sync()
        with mock.patch("os.fsync"):
            without.append(seconds(write))
    return statistics.median(with_it), statistics.median(without)


def main() -> None:
    """Measure and print the medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=Path(), help="where to write")
    options = parser.parse_args()
    table = Table("written", "with fsync, ms", "without, ms")
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = Path(temporary)
        writes: dict[str, Callable[[], None]] = {
            "small state file": lambda: write_json(folder / "state.json", {"version": "v1"})
        }
        for size in (1, 10, 100, 1000):
            writes[f"checkpoint of {size} MB"] = lambda size=size: write_checkpoint(folder, size)  # type: ignore[misc]
        for name, write in writes.items():
            with_it, without = measure(write, options.rounds)
            table.add_row(name, f"{with_it * 1000:,.1f}", f"{without * 1000:,.1f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
