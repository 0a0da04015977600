"""Measure ``tuneline serve`` under load by ``wrk``: requests/s, latency, time of the processors and memory.

Run ``python -m benchmarks.service [CHECKOUT ...]`` in the root of a project whose pipeline has run, with
nothing else running on the machine. Each request has one row. The services of several checkouts, such as one
of an earlier commit, take turns, with the libraries of this environment; without a checkout, this one is
measured. The load shares the cores, of which ``wrk`` needs little (Debian: ``apt-get install wrk``).
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import httpx
import psutil
from rich.console import Console
from rich.table import Table

from tuneline.core.runtime.processes import ending
from tuneline.onnx.records import ExportRecord
from tuneline.onnx.usage import EXPORT_RECORD
from tuneline.rows.reading.rows import LEAVE_OUT, BadRows
from tuneline.rows.reading.tables import open_table
from tuneline.serve.batch import input_to_score
from tuneline.serve.columns import InputColumns
from tuneline.serve.streaming import good_rows

ROOT = Path(__file__).resolve().parents[1]
MOST_ROWS = 1000
START_SECONDS = 120
WARM_UP_CONNECTIONS, WARM_UP_SECONDS = 8, 2
LUA = """
local requests, next_request = {}, 0
function init(arguments)
  for line in io.lines(arguments[1]) do
    local headers = { ["Content-Type"] = "application/json" }
    requests[#requests + 1] = wrk.format("POST", "/predict", headers, line)
  end
end
function request()
  next_request = next_request % #requests + 1
  return requests[next_request]
end
function done(summary, latency, _)
  local errors = summary.errors
  local lost = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format(
    '\\n{"requests": %d, "microseconds": %d, "p50": %f, "p95": %f, "p99": %f, "refused": %d, "lost": %d}\\n',
    summary.requests, summary.duration, latency:percentile(50) / 1000, latency:percentile(95) / 1000,
    latency:percentile(99) / 1000, errors.status, lost))
end
"""
"""The script of ``wrk``: it sends the bodies of a file in turns, and prints the measurements as JSON."""


@dataclass(frozen=True)
class LoadResult:
    """The measurements of one load.

    Attributes:
        requests: Answers of any status.
        p50: Latency in ms, like the other two.
        refused: Answers with a status that is not 2xx or 3xx.
        lost: Requests without an answer.
    """

    requests: int
    requests_per_second: float
    p50: float
    p95: float
    p99: float
    refused: int
    lost: int


def read_rows(model: Path, file: Path) -> list[tuple[str, ...]]:
    """Return the first rows of a file, without those that cannot be predicted."""
    text_columns = ExportRecord.read(model / EXPORT_RECORD).text_columns
    source = input_to_score(file, model)
    with open_table(source) as table:
        bad = BadRows(source.name, source.unit, LEAVE_OUT)
        rows = good_rows(table, InputColumns(tuple(text_columns)), bad)
        return [row.texts for row in islice(rows, MOST_ROWS)]


def write_bodies(rows: Sequence[tuple[str, ...]], path: Path) -> None:
    """Write the body of the request for each row, one per line."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({"inputs": row[0] if len(row) == 1 else row}) + "\n")


def send_load(port: int, bodies: Path, connections: int, seconds: float) -> LoadResult:
    """Send the bodies over so many connections, each of which waits for its answer."""
    script = bodies.with_name("load.lua")
    script.write_text(LUA, encoding="utf-8")
    command = ["wrk", "--threads", "1", "--connections", str(connections), "--duration", f"{seconds:.0f}s"]
    command += ["--timeout", "10s", "--script", str(script), f"http://127.0.0.1:{port}", "--", str(bodies)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout.strip().splitlines()[-1])
    seconds_taken = measured.pop("microseconds") / 1e6
    return LoadResult(requests_per_second=measured["requests"] / seconds_taken, **measured)


@contextmanager
def started(checkout: Path, model: Path, precision: str, log: Path) -> Iterator[tuple[int, psutil.Process]]:
    """Start the service of a checkout, and yield its port and process when it is ready.

    Raises:
        RuntimeError: It ended, or did not answer in time; the message has the end of its ``log``.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # -P: not the code of the current folder
    command = [sys.executable, "-P", "-m", "tuneline.cli", "serve", "--port", str(port)]
    command += ["--model", str(model), "--precision", precision]
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve())}
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    with ending(server):
        wait_for_health(server, port, log)
        yield port, psutil.Process(server.pid)


def wait_for_health(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until a service answers ``/health``; see ``started`` for the error."""
    limit = time.monotonic() + START_SECONDS
    while time.monotonic() < limit and server.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", timeout=5, trust_env=False).is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"the service did not start:\n{log.read_text(errors='replace')[-2000:]}")


def measure(
    checkout: Path, precision: str, bodies: Path, options: argparse.Namespace
) -> dict[int, dict[str, float]]:
    """Start a service, warm it, and return the measurements by number of connections."""
    results = {}
    with started(checkout, options.model, precision, bodies.with_name("log")) as (port, process):
        send_load(port, bodies, WARM_UP_CONNECTIONS, WARM_UP_SECONDS)
        for connections in options.connections:
            before = process.cpu_times()
            load = send_load(port, bodies, connections, options.seconds)
            after = process.cpu_times()
            seconds = after.user + after.system - before.user - before.system
            results[connections] = {
                "requests/s": load.requests_per_second,
                "p50 ms": load.p50,
                "p95 ms": load.p95,
                "p99 ms": load.p99,
                "CPU ms": 1000 * seconds / max(load.requests, 1),
                "not 2xx": load.refused,
                "lost": load.lost,
                "MB": process.memory_info().rss / 2**20,
            }
    return results


def main() -> None:
    """Measure in turns, and print the medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--model", type=Path, default=Path("models/onnx"), help="folder of an exported model")
    parser.add_argument(
        "--rows", type=Path, default=Path("data/raw/test.parquet"), help="file with the texts that are sent"
    )
    parser.add_argument("--precision", nargs="+", default=["fp32", "int8"])
    parser.add_argument("--connections", nargs="+", type=int, default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=4, help="of each load")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()

    measured: dict[tuple[str, Path, int], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        bodies = Path(temporary) / "bodies.txt"
        write_bodies(read_rows(options.model, options.rows), bodies)
        for precision in options.precision:
            for _ in range(options.rounds):
                for checkout in options.checkouts:
                    for connections, result in measure(checkout, precision, bodies, options).items():
                        measured.setdefault((precision, checkout, connections), []).append(result)

    table = Table(title=f"{options.seconds:g} s per load, medians of {options.rounds}", title_justify="left")
    for name in ("precision", "checkout", "connections", *next(iter(measured.values()))[0]):
        table.add_column(name, justify="left" if name in ("precision", "checkout") else "right")
    for key, rounds in measured.items():
        medians = [statistics.median(result[name] for result in rounds) for name in rounds[0]]
        table.add_row(*map(str, key), *(f"{value:,.1f}" for value in medians))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
