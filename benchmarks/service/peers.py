"""The servers that are measured, each a process of its own."""

import importlib.util
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

START_SECONDS, END_SECONDS = 120, 15


@dataclass(frozen=True)
class Peer:
    """A server.

    Attributes:
        name: How tables name it.
        command: The command that starts it, without the options that all get.
        package: A package that it needs and that is not in requirements.txt.
        is_torch: It loads the model before the export, which has one precision.
    """

    name: str
    command: tuple[str, ...]
    package: str | None = None
    is_torch: bool = False


def of_module(module: str, *options: str) -> tuple[str, ...]:
    """Return the command of a server of this package."""
    return (sys.executable, "-m", f"benchmarks.service.{module}", *options)


TUNELINE = str(Path(sys.executable).with_name("tuneline"))
PEERS = (
    Peer("tuneline serve", (TUNELINE, "serve")),
    Peer("FastAPI", of_module("plain")),
    Peer("LitServe, 1 worker x 2", of_module("lit", "--workers", "1", "--threads", "2"), "litserve"),
    Peer("LitServe, 2 workers x 1", of_module("lit", "--workers", "2", "--threads", "1"), "litserve"),
    Peer("transformers.pipeline", of_module("torch_pipeline"), is_torch=True),
)


def reason_to_skip(peer: Peer, torch_model: Path) -> str | None:
    """Return why a server cannot be measured here; ``None`` if it can."""
    if peer.package is not None and importlib.util.find_spec(peer.package) is None:
        return f"{peer.package} is not installed"
    if peer.is_torch and not torch_model.is_dir():
        return f"{torch_model} is missing"
    if peer.command[0] == TUNELINE:
        known = subprocess.run([*peer.command, "--help"], capture_output=True, check=False)
        if known.returncode != 0:
            return "there is no such command"
    return None


def reason_to_stop() -> str | None:
    """Return why nothing can be measured here; ``None`` if it can."""
    if shutil.which("wrk") is None:
        return "wrk is not installed, which sends the load (Debian: apt-get install wrk)"
    return None


def free_port() -> int:
    """Return a port of the loopback address that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def started(peer: Peer, model: Path, precision: str, log: Path) -> Iterator[int]:
    """Start a server, wait until it answers, yield its port, and end it with all that it started.

    Raises:
        RuntimeError: It ended, or did not answer in time; the message has the end of its ``log``.
    """
    port = free_port()
    options = ["--model", str(model), "--precision", precision, "--port", str(port)]
    with log.open("wb") as output:
        server = psutil.Popen([*peer.command, *options], stdout=output, stderr=output)
    try:
        wait_for_health(server, port, log)
        yield port
    finally:
        if server.poll() is None:
            end(server)


def end(server: psutil.Popen) -> None:
    """End a server; what it started and has not ended after some seconds is killed."""
    family = [server, *server.children(recursive=True)]
    server.terminate()
    _, alive = psutil.wait_procs(family, END_SECONDS)
    for process in alive:
        process.kill()
    psutil.wait_procs(alive, END_SECONDS)


def wait_for_health(server: psutil.Popen, port: int, log: Path) -> None:
    """Wait until a server answers ``/health``; see ``started`` for the errors."""
    limit = time.monotonic() + START_SECONDS
    while time.monotonic() < limit and server.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", timeout=5, trust_env=False).is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"{' '.join(server.args)} did not start:\n{log.read_text(errors='replace')[-2000:]}")


def family_of(port: int) -> list[psutil.Process]:
    """Return the processes of the server on a port."""
    family = []
    for process in psutil.Process().children():
        if str(port) in process.cmdline():
            family += [process, *process.children(recursive=True)]
    return family


def memory_mb(family: Sequence[psutil.Process]) -> float:
    """Return the memory of processes; what they share counts once."""
    return sum(process.memory_full_info().pss for process in family) / 2**20


def processor_seconds(family: Sequence[psutil.Process]) -> float:
    """Return the time that processes have computed."""
    seconds = 0.0
    for process in family:
        times = process.cpu_times()
        seconds += times.user + times.system
    return seconds
