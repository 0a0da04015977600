"""The process: signals end what was accepted, and errors say what to do."""

import re
import signal
import socket
import subprocess
import sys
import threading

import httpx
import pytest
from typer.testing import CliRunner

from tuneline.cli import app


def started(folder):
    """Start ``tuneline serve``; return process and address."""
    command = [sys.executable, "-m", "tuneline.cli", "serve", "--model", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    match = re.search(r"answers at (http://\S+)", line)
    assert match, line + process.stderr.read()
    return process, match[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_signal_ends_the_service_after_what_it_has_accepted(pair_folder, number):
    process, address = started(pair_folder)
    answers = []
    body = {"inputs": [["parcel " * 100, "came"]] * 1000}
    with httpx.Client(base_url=address, timeout=60) as client:
        asking = threading.Thread(target=lambda: answers.append(client.post("/predict", json=body)))
        asking.start()
        while "tuneline_waiting_rows 0.0" in client.get("/metrics").text:
            assert asking.is_alive()
        process.send_signal(number)
        asking.join()
    assert process.wait(60) == 0
    assert answers[0].status_code == 200
    assert len(answers[0].json()) == 1000
    assert process.stderr.read().endswith("serve: ended\n")


def test_log_has_no_text_of_a_request(pair_folder):
    process, address = started(pair_folder)
    for body in ({"inputs": ["secret words", 7]}, {"inputs": ["secret words", "b"]}, {"secret words": 1}):
        httpx.post(f"{address}/predict", json=body)
    httpx.get(f"{address}/secret")
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(b"secret\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 400")
    process.terminate()
    log = process.communicate(timeout=60)[1]
    assert "secret" not in log


@pytest.mark.parametrize(
    ("options", "token", "message"),
    [
        (["--host", "0.0.0.0"], None, "there is no token"),  # noqa: S104
        (["--host", "0.0.0.0"], "short", "which can be guessed"),  # noqa: S104
    ],
)
def test_setting_that_cannot_be_used_is_an_error(pair_folder, monkeypatch, options, token, message):
    monkeypatch.delenv("TUNELINE_SERVICE_TOKEN", raising=False)
    if token is not None:
        monkeypatch.setenv("TUNELINE_SERVICE_TOKEN", token)
    done = CliRunner().invoke(app, ["serve", "--model", str(pair_folder), "--port", "0", *options])
    assert done.exit_code == 1
    assert message in done.stderr
