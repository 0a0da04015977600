"""Measure training on two cores or more while other programs use them.

``fixed``: waits of OpenMP's threads as torch sets them. ``passive``: ``OMP_WAIT_POLICY=PASSIVE``. ``spin N``:
``GOMP_SPINCOUNT=N``. ``adaptive``: stages/train/devices.py. Each is measured on the quiet machine and beside
one competing process per core, which leaves half of each core as the fair share. Settings alternate.

Run in the root of the project, with nothing else running: ``python -m benchmarks.contention``.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

SETTINGS: dict[str, tuple[str, dict[str, str]]] = {
    "fixed": ("fixed", {}),
    "adaptive": ("adaptive", {}),
    "passive": ("fixed", {"OMP_WAIT_POLICY": "PASSIVE"}),
    "spin 10000": ("fixed", {"GOMP_SPINCOUNT": "10000"}),
}
FAIR = 0.5


@contextmanager
def competing(processes: int) -> Iterator[None]:
    """Keep a number of processes busy until the block ends."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def samples_per_second(name: str, competitors: int, options: argparse.Namespace) -> float:
    """Train in a process of its own, and return its speed."""
    waits, variables = SETTINGS[name]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_"))}
    shape = [
        f"--layers={options.layers}",
        f"--hidden={options.hidden}",
        f"--batch={options.batch}",
        f"--steps={options.steps}",
    ]
    fixed = ["--seed=0", "--bf16=0", "--profile=0", "--learning-rate=1e-4", f"--waits={waits}"]
    with tempfile.TemporaryDirectory() as folder, competing(competitors):
        command = [
            sys.executable,
            "-m",
            "benchmarks.training_ways.run",
            "ours",
            f"--folder={folder}",
            *shape,
            *fixed,
        ]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            env={**environment, **variables, "PYTHONPATH": str(Path.cwd())},
        )
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-4000:]}")
    return float(json.loads(done.stdout.splitlines()[-1])["samples_per_second"])


def main() -> None:
    """Measure and print the medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (("layers", 2), ("hidden", 128), ("batch", 32), ("steps", 150), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    options, console = parser.parse_args(), Console(width=120)
    cores = len(os.sched_getaffinity(0))
    results: dict[tuple[str, int], list[float]] = {
        (name, load): [] for name in options.settings for load in (0, cores)
    }
    for number in range(options.rounds):
        for (name, load), speeds in results.items():
            speeds.append(samples_per_second(name, load, options))
            console.print(
                f"round {number + 1}: {name}, {load} competing: {speeds[-1]:.1f} samples/s", style="dim"
            )
    table = Table("waits", "quiet, samples/s", "of fixed", f"{cores} competing", "of the fair share")
    quiet = {name: statistics.median(results[name, 0]) for name in options.settings}
    best = max(quiet.values())
    for name in options.settings:
        busy = statistics.median(results[name, cores])
        relative = f"{quiet[name] / quiet['fixed']:.2f} x" if "fixed" in quiet else "-"
        table.add_row(name, f"{quiet[name]:.1f}", relative, f"{busy:.1f}", f"{busy / (FAIR * best):.2f} x")
    console.print(table)


if __name__ == "__main__":
    main()
