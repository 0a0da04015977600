"""``tuneline serve --engine ray``: two replicas answer as one process does, and survive each other."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest
from typer.testing import CliRunner

from tests.exported_pipeline import published_pipeline
from tests.flows.prefect_server import free_port
from tuneline.cli import app
from tuneline.program.text_classifier import TextClassifier

TOKEN = "of-the-test-0123456789"  # noqa: S105 - of this test
ROWS = [["parcel missing", "the parcel never came"]] * 8


@dataclass
class OnRay:
    """A running command."""

    process: subprocess.Popen
    url: str
    folder: Path

    def client(self, token: str = TOKEN) -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=30)

    def children(self, name: str) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [child for child in children if child.name().startswith(name)]


@pytest.fixture
def on_ray(tmp_path_factory, tmp_path) -> Iterator[OnRay]:
    """Two replicas."""
    pytest.importorskip("ray.serve")
    folder = published_pipeline(tmp_path_factory, "classification") / "models/onnx"
    port = free_port()
    command = [Path(sys.executable).parent / "tuneline", "serve", "--engine", "ray", "--replicas", "2"]
    env = {**os.environ, "TUNELINE_SERVICE_TOKEN": TOKEN}
    env.pop("RAY_ADDRESS", None)
    output = tmp_path / "output"
    with output.open("w") as log:
        process = subprocess.Popen(
            [*command, "--model", folder.name, "--port", str(port)],
            cwd=folder.parent,
            env=env,
            stdout=log,
            stderr=log,
        )
    try:
        until = time.monotonic() + 120
        while "answers at" not in output.read_text():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < until, output.read_text()
            time.sleep(0.2)
        yield OnRay(process, f"http://127.0.0.1:{port}", folder)
        assert "Traceback" not in output.read_text()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_replicas_answer_as_the_model_and_refuse_as_one_process(on_ray):
    expected = TextClassifier.load(on_ray.folder, threads=1).predict([tuple(row) for row in ROWS])
    with on_ray.client() as client:
        replicas = set()
        until = time.monotonic() + 30
        while len(replicas) < 2 and time.monotonic() < until:
            answer = client.post("/predict", json={"inputs": ROWS, "raw_scores": False})
            assert answer.status_code == 200
            assert answer.json()[0][0]["label"] == expected[0].label
            assert answer.headers["tuneline-version"] == expected[0].version
            assert answer.headers["x-content-type-options"] == "nosniff"
            replicas.add(answer.headers["tuneline-replica"])
        assert len(replicas) == 2

        chunks = (b" " * 100_000 for _ in range(30))
        json = {"content-type": "application/json"}
        assert client.post("/predict", content=chunks, headers=json).status_code == 413
        assert client.post("/predict", content=b"[", headers=json).status_code == 400
    with on_ray.client("another") as client:
        assert client.post("/predict", json={"inputs": ROWS}).status_code == 401
        assert client.get("/v2/health/ready").status_code == 200

    # the token reaches the replicas, and no log of Ray
    (raylet,) = on_ray.children("raylet")
    (session,) = {word.partition("=")[2] for word in raylet.cmdline() if word.startswith("--session_dir=")}
    logs = [file for file in Path(session, "logs").rglob("*") if file.is_file()]
    assert len(logs) > 5
    assert not [file.name for file in logs if TOKEN.encode() in file.read_bytes()]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_replica_loses_only_what_it_computed_and_a_signal_loses_nothing(on_ray):
    statuses: list[tuple[float, int]] = []
    retried: list[int] = []

    def ask() -> None:
        with on_ray.client() as client:
            while True:
                began = time.monotonic()
                try:
                    status = client.post("/predict", json={"inputs": ROWS}).status_code
                except httpx.ConnectError:
                    return
                statuses.append((began, status))
                if status == 404:  # the replicas have ended, and the proxy not yet
                    return
                if status == 500:
                    retried.append(client.post("/predict", json={"inputs": ROWS}).status_code)

    clients = [threading.Thread(target=ask) for _ in range(6)]
    for client in clients:
        client.start()
    time.sleep(2)
    victim, _ = on_ray.children("ray::ServeReplica")
    killed = time.monotonic()
    victim.kill()
    until = killed + 60
    while len(on_ray.children("ray::ServeReplica")) < 2 or victim.is_running():
        assert time.monotonic() < until
        time.sleep(0.2)
    time.sleep(3)
    ended = time.monotonic()
    on_ray.process.send_signal(signal.SIGHUP)  # changes nothing
    on_ray.process.send_signal(signal.SIGTERM)
    assert on_ray.process.wait(60) == 0
    for client in clients:
        client.join()

    counts = Counter(status for _, status in statuses)
    assert set(counts) <= {200, 404, 500}
    assert counts[200] > 50
    assert counts[500] <= len(clients), "what was in work on the killed one"
    assert set(retried) <= {200}
    assert all(status == 200 for began, status in statuses if killed + 2 < began < ended)


def test_options_of_ray_are_refused_where_they_mean_nothing(tmp_path):
    done = CliRunner().invoke(app, ["serve", "--model", str(tmp_path), "--replicas", "2"])
    assert (done.exit_code, "--engine ray" in done.output) == (1, True)
    done = CliRunner().invoke(app, ["serve", "--model", str(tmp_path), "--engine", "ray", "--port", "0"])
    assert (done.exit_code, "--port 0" in done.output) == (1, True)
