"""Measure a service on Ray beside one process, and what a killed replica and the end of the service lose.

Clients send requests of 16 rows one after another. After some seconds, a replica on Ray is killed; when its
successor answers, SIGTERM ends the service. Run in the root of the project, with a model in ``models/onnx``:
``python -m benchmarks.replicas``.
"""

import argparse
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from tuneline.program.text_classifier import TextClassifier
from tuneline.runtime.terminal import say

TEXT = "the parcel never came and the invoice is wrong " * 3
ROWS = 16
"""Rows of a request."""
TOKEN = secrets.token_hex(16)


@dataclass(frozen=True)
class Request:
    """A request that has an answer.

    Attributes:
        began: When it was sent.
        seconds: How long its answer took.
        status: Its status; 0 without an answer.
    """

    began: float
    seconds: float
    status: int


def main() -> None:
    """Measure each engine."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replicas", description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/onnx"))
    parser.add_argument("--port", type=int, default=8417)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--engines", nargs="+", default=["local", "ray"])
    options = parser.parse_args()
    for engine in options.engines:
        measure(engine, options)


def measure(engine: str, options: argparse.Namespace) -> None:
    """Print what clients get from one engine."""
    command = [
        Path(sys.executable).parent / "tuneline",
        "serve",
        "--engine",
        engine,
        "--model",
        options.model,
    ]
    command += ["--port", str(options.port)]
    if engine == "ray":
        command += ["--replicas", "2"]
    columns = len(TextClassifier.load(options.model, threads=1).text_columns)
    requests: list[Request] = []
    with tempfile.TemporaryFile("w+") as log:
        began = time.monotonic()
        env = {**os.environ, "TUNELINE_SERVICE_TOKEN": TOKEN}
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        wait_until_ready(options.port, process)
        say(f"{engine}: answers after {time.monotonic() - began:.1f} s, {memory(process):.0f} MB")

        arguments = (options.port, columns, requests)
        clients = [threading.Thread(target=ask, args=arguments) for _ in range(options.clients)]
        for client in clients:
            client.start()
        time.sleep(options.seconds)
        measured = [request for request in requests if request.began > requests[0].began + 1]
        took = sorted(request.seconds for request in measured)
        rows = ROWS * len(measured) / (options.seconds - 1)
        middle, late = took[len(took) // 2], took[int(len(took) * 0.95)]
        say(f"{engine}: {rows:.0f} rows/s, median {1000 * middle:.0f} ms, 95 % {1000 * late:.0f} ms")

        if engine == "ray":
            kill_a_replica(process)
        ended = time.monotonic()
        process.send_signal(signal.SIGTERM)
        status = process.wait(60)
        say(f"{engine}: ends after {time.monotonic() - ended:.1f} s with status {status}")
        for client in clients:
            client.join()
    before = Counter(request.status for request in requests if request.began < ended)
    after = Counter(request.status for request in requests if request.began >= ended)
    say(f"{engine}: statuses until SIGTERM {dict(before)}, after it {dict(after)}")


def wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the service answers."""
    while process.poll() is None:
        try:
            httpx.get(f"http://127.0.0.1:{port}/v2/health/ready", trust_env=False).raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return
    sys.exit("the service has ended")


def memory(process: subprocess.Popen[bytes]) -> float:
    """Return the MB of a process and of all that it started, without what they share."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    return sum(member.memory_full_info().pss for member in family) / 1e6


def ask(port: int, columns: int, requests: list[Request]) -> None:
    """Send requests until the service has ended."""
    body = {"inputs": [[TEXT] * columns] * ROWS} if columns > 1 else {"inputs": [TEXT] * ROWS}
    headers = {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(headers=headers, trust_env=False, timeout=60) as client:
        status = 200
        while status not in {0, 404}:
            began = time.monotonic()
            try:
                status = client.post(f"http://127.0.0.1:{port}/predict", json=body).status_code
            except httpx.ConnectError:
                return
            except httpx.HTTPError:
                status = 0
            requests.append(Request(began, time.monotonic() - began, status))


def kill_a_replica(process: subprocess.Popen[bytes]) -> None:
    """Kill a replica, and wait until there are two again, and some seconds more."""
    victim, _ = replicas(process)
    killed = time.monotonic()
    victim.kill()
    while len(replicas(process)) < 2 or victim.is_running():
        time.sleep(0.1)
    say(f"ray: two processes again after {time.monotonic() - killed:.1f} s")
    time.sleep(8)


def replicas(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Return the replicas of a service on Ray."""
    children = psutil.Process(process.pid).children(recursive=True)
    return [child for child in children if child.name().startswith("ray::ServeReplica")]


if __name__ == "__main__":
    main()
