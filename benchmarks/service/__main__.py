"""Measure servers of one exported model beside each other: requests/s and latency, under load by ``wrk``.

- ``tuneline serve``: a worker per core, with one session.
- ``FastAPI``: a handler that calls one session of all cores, one row at a time.
- ``LitServe``: an existing engine with batches and workers, if it is installed
  (``pip install litserve``).
- ``transformers.pipeline``: the model before its export, behind FastAPI.
- ``no server``: the model in a loop, with one thread and with all cores.

All but ``transformers.pipeline`` call ``TextClassifier``, and answer the same requests in the same form, of
one row each. Each server is a process of its own, on the cores that the load shares; it is warmed, measured
and ended before the next one starts. Rounds take them in turns, and tables have the medians. ``CPU ms`` is
the time of all processors that a server takes for an answer, which other programs on the machine hardly
change. ``same labels`` counts answers whose most probable class is that of ``TextClassifier``.

``--layout`` measures instead, without a server, how sessions and batches share the cores.

Run in the root of the project, on an otherwise idle machine: ``python -m benchmarks.service``.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

from benchmarks.service.layout import measure_layouts
from benchmarks.service.load import LoadResult, send_load
from benchmarks.service.peers import (
    PEERS,
    Peer,
    family_of,
    memory_mb,
    of_module,
    processor_seconds,
    reason_to_skip,
    reason_to_stop,
    started,
)
from benchmarks.service.rows import body, read_rows, write_bodies
from tuneline.core.stage.machine import threads
from tuneline.serve.text_classifier import TextClassifier

CHECKED, WARM_UP_CONNECTIONS, WARM_UP_SECONDS = 32, 8, 2
LIBRARIES = (
    "onnxruntime",
    "tokenizers",
    "fastapi",
    "starlette",
    "uvicorn",
    "litserve",
    "transformers",
)
LIBRARIES += ("torch", "uvloop", "httptools")


@dataclass(frozen=True)
class SentRows:
    """What is sent to each server.

    Attributes:
        rows: The texts.
        bodies: The file with the request for each row.
        first_labels: The classes that are expected for the first rows.
    """

    rows: list[tuple[str, ...]]
    bodies: Path
    first_labels: list[str]


@dataclass(frozen=True)
class ServerRound:
    """The measurements of one server in one round.

    Attributes:
        loads: The result by number of connections.
        processor_ms: Time of the processors per answer, by number of connections.
        same_labels: Answers with the label of ``TextClassifier``.
        megabytes: Memory after the loads.
    """

    loads: dict[int, LoadResult]
    processor_ms: dict[int, float]
    same_labels: int
    megabytes: float


def parse() -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=Path("models/onnx"), help="folder of an exported model")
    parser.add_argument(
        "--torch-model", type=Path, default=Path("models/classifier"), help="the same before its export"
    )
    parser.add_argument(
        "--rows", type=Path, default=Path("data/raw/test.parquet"), help="file with the texts that are sent"
    )
    parser.add_argument("--precision", nargs="+", default=["fp32", "int8"])
    parser.add_argument("--connections", nargs="+", type=int, default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=4, help="of each load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[], help="beginnings of the names of servers to measure")
    parser.add_argument("--layout", action="store_true", help="sessions and batches, without a server")
    return parser.parse_args()


def measure_server(peer: Peer, options: argparse.Namespace, precision: str, sent: SentRows) -> ServerRound:
    """Start a server, compare its first answers, warm it and measure it."""
    model = options.torch_model if peer.is_torch else options.model
    with started(peer, model, precision, sent.bodies.with_name("server.log")) as port:
        same_labels = 0
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as client:
            for row, label in zip(sent.rows, sent.first_labels, strict=False):
                classes = client.post("/predict", json=body(row)).raise_for_status().json()
                same_labels += classes[0]["label"] == label

        send_load(port, sent.bodies, WARM_UP_CONNECTIONS, WARM_UP_SECONDS)
        family = family_of(port)
        loads = {}
        processor_ms = {}
        for connections in options.connections:
            before = processor_seconds(family)
            load = send_load(port, sent.bodies, connections, options.seconds)
            loads[connections] = load
            processor_ms[connections] = 1000 * (processor_seconds(family) - before) / max(load.requests, 1)
        return ServerRound(loads, processor_ms, same_labels, memory_mb(family))


def bare_milliseconds(options: argparse.Namespace, precision: str, session_threads: int) -> list[float]:
    """Return the quantiles of the milliseconds per row without a server."""
    command = [*of_module("bare"), "--model", str(options.model), "--rows", str(options.rows)]
    command += [
        "--precision",
        precision,
        "--threads",
        str(session_threads),
        "--seconds",
        str(options.seconds),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    quantiles: list[float] = json.loads(done.stdout)
    return quantiles


def measure_precision(
    options: argparse.Namespace, precision: str, peers: Sequence[Peer], sent: SentRows, console: Console
) -> None:
    """Measure all servers with one precision, in turns, and print the medians."""
    servers: dict[str, list[ServerRound]] = {}
    bare: dict[str, list[list[float]]] = {}
    for _ in range(options.rounds):
        for session_threads in dict.fromkeys((1, threads())):
            quantiles = bare_milliseconds(options, precision, session_threads)
            bare.setdefault(f"no server, threads: {session_threads}", []).append(quantiles)
        for peer in peers:
            if peer.is_torch and precision != "fp32":
                continue
            result = measure_server(peer, options, precision, sent)
            servers.setdefault(peer.name, []).append(result)
    title = f"{precision}, {options.seconds:g} s per load, medians of {options.rounds}"
    print_results(title, servers, bare, console)


def labels_of(options: argparse.Namespace, precision: str, rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the most probable class of each row, as ``TextClassifier`` computes it alone."""
    model = TextClassifier.load(options.model, precision)
    labels = []
    for prediction in model.predict(rows, batch_size=1):
        labels.append(max(prediction.scores, key=lambda name: prediction.scores[name]))
    return labels


def print_results(
    title: str, servers: dict[str, list[ServerRound]], bare: dict[str, list[list[float]]], console: Console
) -> None:
    """Print the medians of each server and number of connections."""
    table = Table(title=title, title_justify="left")
    columns = (
        "server",
        "connections",
        "requests/s",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "CPU ms",
        "not 2xx",
        "lost",
    )
    for column in (*columns, "same labels", "MB"):
        table.add_column(column, justify="left" if column == "server" else "right", no_wrap=True)
    for name, rounds in bare.items():
        quantiles = [f"{statistics.median(values):.2f}" for values in zip(*rounds, strict=True)]
        table.add_row(name, "", "", *quantiles)
    for name, measured in servers.items():
        for connections in measured[0].loads:
            loads = [each.loads[connections] for each in measured]
            speed = statistics.median(load.requests_per_second for load in loads)
            quantiles = []
            for quantile in ("p50", "p95", "p99"):
                quantiles.append(f"{statistics.median(getattr(load, quantile) for load in loads):.2f}")
            processor_ms = statistics.median(each.processor_ms[connections] for each in measured)
            refused = sum(load.refused for load in loads)
            lost = sum(load.lost for load in loads)
            labels = f"{min(each.same_labels for each in measured)} of {CHECKED}"
            megabytes = f"{statistics.median(each.megabytes for each in measured):,.0f}"
            counts = (
                f"{speed:,.0f}",
                *quantiles,
                f"{processor_ms:.1f}",
                str(refused),
                str(lost),
                labels,
                megabytes,
            )
            table.add_row(name, str(connections), *counts)
    console.print(table)


def processor_name() -> str:
    """Return the model of the processor."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def print_machine(console: Console) -> None:
    """Print the processor and the versions of the libraries."""
    versions = []
    for library in LIBRARIES:
        try:
            versions.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            continue
    console.print(f"{processor_name()}, {threads()} cores; {', '.join(versions)}", highlight=False)


def main() -> None:
    """Measure and print."""
    options = parse()
    console = Console(width=140)
    print_machine(console)
    rows = read_rows(options.model, options.rows)
    if options.layout:
        measure_layouts(options.model, options.precision, rows, options.rounds)
        return
    problem = reason_to_stop()
    if problem is not None:
        sys.exit(problem)

    # What can be measured here
    peers = []
    for peer in PEERS:
        if options.only and not peer.name.startswith(tuple(options.only)):
            continue
        reason = reason_to_skip(peer, options.torch_model)
        if reason is None:
            peers.append(peer)
        else:
            console.print(f"{peer.name}: left out, because {reason}", highlight=False)

    for precision in options.precision:
        with tempfile.TemporaryDirectory() as temporary:
            bodies = Path(temporary) / "bodies.txt"
            write_bodies(rows, bodies)
            sent = SentRows(rows, bodies, labels_of(options, precision, rows[:CHECKED]))
            measure_precision(options, precision, peers, sent, console)


if __name__ == "__main__":
    main()
