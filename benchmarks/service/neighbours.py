"""Measure the latency of a client with one row beside others, and on less than a core.

The others send requests of 1,000 rows, leave before the answer, send the longest rows that the tokenizer is
slow with, or ask for more than the service takes. ``--prefix`` is put before the command of the server, such
as ``taskset -c 0``. Run in the root of the project: ``python -m benchmarks.service.neighbours``.
"""

import argparse
import json
import shlex
import socket
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil

from benchmarks.service.hostile import honest, request
from benchmarks.service.peers import TUNELINE, end, free_port, wait_for_health
from benchmarks.service.rows import body, read_rows

SECONDS = 8


def neighbours(port: int, rows: list[tuple[str, ...]]) -> dict[str, tuple[int, Callable[[], str]]]:
    """Return kinds of other clients: how many there are, and what each does once."""
    many = json.dumps({"inputs": [body(row)["inputs"] for row in (rows * 4)[:1000]]}).encode()
    if len(rows[0]) == 1:
        many = json.dumps({"inputs": [list(row) for row in (rows * 4)[:1000]]}).encode()
    long_row = [*rows[0][1:], "!" * 99_000]
    longest = json.dumps({"inputs": [long_row] * 20}).encode()

    def post(content: bytes) -> str:
        headers = {"Content-Type": "application/json"}
        url = f"http://127.0.0.1:{port}/predict"
        answer = httpx.post(url, content=content, headers=headers, timeout=120, trust_env=False)
        again = answer.headers.get("retry-after")
        return str(answer.status_code) + (" with Retry-After" if again else "")

    def leave() -> str:
        with socket.create_connection(("127.0.0.1", port)) as opened:
            opened.sendall(request("/predict", many))
            time.sleep(0.2)
        return "left"

    return {
        "nobody": (0, lambda: ""),
        "1 client, 1,000 rows each": (1, lambda: post(many)),
        "4 clients, 1,000 rows each": (4, lambda: post(many)),
        "8 clients that leave": (8, leave),
        "8 clients, 20 rows of 99,000 !": (8, lambda: post(longest)),
        "32 clients, 1,000 rows each": (32, lambda: post(many)),
        "nobody again": (0, lambda: ""),
    }


def measure(port: int, texts: list[str], count: int, call: Callable[[], str]) -> str:
    """Return the latency of the client with one row, and what the others got."""
    stop = threading.Event()
    milliseconds: list[float] = []
    faults: list[str] = []
    outcomes: Counter[str] = Counter()

    def repeat() -> None:
        while not stop.is_set():
            outcomes[call()] += 1

    others = [threading.Thread(target=repeat) for _ in range(count)]
    client = threading.Thread(target=honest, args=(port, stop, texts, milliseconds, faults))
    for thread in (client, *others):
        thread.start()
    time.sleep(SECONDS)
    stop.set()
    for thread in (client, *others):
        thread.join()
    quantiles = statistics.quantiles(milliseconds, n=100)
    return (
        f"p50 {quantiles[49]:.1f}, p99 {quantiles[98]:.1f}, most {max(milliseconds):.1f} ms;"
        f" {len(milliseconds)} requests, others: {dict(outcomes)}, refused {dict(Counter(faults))}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=Path("models/onnx"))
    parser.add_argument("--rows", type=Path, default=Path("data/raw/test.parquet"))
    parser.add_argument("--prefix", default="", help="command that starts the server, such as taskset -c 0")
    options = parser.parse_args()
    rows = read_rows(options.model, options.rows)[:250]
    with tempfile.TemporaryDirectory() as temporary:
        log = Path(temporary) / "server.log"
        port = free_port()
        command = [*shlex.split(options.prefix), TUNELINE, "serve", "--model", str(options.model)]
        with log.open("wb") as output:
            server = psutil.Popen([*command, "--port", str(port)], stdout=output, stderr=output)
        try:
            wait_for_health(server, port, log)
            texts = list(rows[0])
            for name, (count, call) in neighbours(port, rows).items():
                print(f"{name}: {measure(port, texts, count, call)}", flush=True)
                print(f"  {server.memory_info().rss / 2**20:.0f} MB, {server.num_threads()} threads")
            for line in httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text.splitlines():
                if line.startswith("tuneline_waiting_rows"):
                    print(line)
        finally:
            end(server)
        print(log.read_text(encoding="utf-8", errors="replace")[-1500:])


if __name__ == "__main__":
    main()
