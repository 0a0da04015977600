"""The process: signals end what was accepted, and errors say what to do."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

import httpx
import pytest
from typer.testing import CliRunner

from tuneline.cli import app

PAIR = {"inputs": ["the parcel", "never came"]}


def started(folder, *options, before=(), **environment):
    """Start ``tuneline serve``, by another command if there is one before; return process and address."""
    command = [sys.executable, "-m", "tuneline.cli", "serve", "--model", str(folder), "--port", "0"]
    command = [*before, *command, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    line = process.stderr.readline()
    match = re.search(r"answers at (http://\S+)", line)
    assert match, line + process.stderr.read()
    return process, match[1]


@pytest.mark.parametrize("number", [signal.SIGTERM], ids=["SIGTERM"])
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
    assert "every accepted request has its answer" in process.stderr.read()


def test_log_has_no_text_of_a_request(pair_folder):
    process, address = started(pair_folder)
    for body in ({"inputs": ["secret words", 7]}, {"inputs": ["secret words", "b"]}, {"secret words": 1}):
        httpx.post(f"{address}/predict", json=body)
    httpx.get(f"{address}/secret")
    with connected(address) as client:
        client.sendall(b"secret\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 400")
    process.terminate()
    log = process.communicate(timeout=60)[1]
    assert "secret" not in log


def connected(address):
    """Connect to the port of an address."""
    return socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=20)


@pytest.mark.parametrize("requests", [1, 3])
def test_client_that_ends_its_side_gets_its_answers(pairs, requests):
    body = json.dumps(PAIR).encode()
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with connected(pairs.address) as client:
        client.sendall((head + body) * requests)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while part := client.recv(10_000):
            answer += part
    assert answer.count(b"HTTP/1.1 200") == requests


def test_unfinished_requests_leave_room_for_others(pair_folder):
    """There are more of them than file descriptors."""
    process, address = started(pair_folder, before=["sh", "-c", 'ulimit -n 200; exec "$@"', "sh"])
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
    clients = []
    for number in range(300):
        client = connected(address)
        clients.append(client)
        if number % 2:
            client.sendall(head + b"{")
    assert httpx.post(f"{address}/predict", json=PAIR, timeout=5).status_code == 200
    for client in clients:
        client.close()
    process.terminate()
    log = process.communicate(timeout=60)[1]
    assert len(re.findall(r"(?m)^\d{4}-\d\d-\d\dT\S+ serve: \d+ connections", log)) == 1, log


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


def ask_until_told_to_leave(port, statuses, lost, keep):
    """Ask over one connection, or over one for each request, until there is no other."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    is_last = False
    while not is_last:
        try:
            connection.connect()
        except ConnectionRefusedError:
            return
        is_open = True
        while is_open:
            try:
                connection.request("POST", "/predict", json.dumps(PAIR), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException) as error:
                lost.append(repr(error))
                return
            statuses.append(answer.status)
            is_last = keep and answer.headers["connection"] == "close"
            is_open = keep and not is_last
        connection.close()


def test_sigterm_as_an_ordinary_user_ends_readiness_and_loses_no_request(pair_folder):
    before = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root has every capability, and there is no setpriv to drop them")
        before = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    process, address = started(pair_folder, before=before)
    port = int(address.rpartition(":")[2])
    statuses, lost = [], []
    clients = []
    for number in range(16):
        client = threading.Thread(target=ask_until_told_to_leave, args=(port, statuses, lost, number % 2))
        clients.append(client)
        client.start()
    probes = {}
    for path in ("/health",):
        probes[path] = httpx.Client(base_url=address)
        assert probes[path].get(path).status_code == 200
    process.terminate()
    for path, probe in probes.items():
        while (status := probe.get(path).status_code) == 200:
            pass
        assert status == 503
    for client in clients:
        client.join()
    assert process.wait(30) == 0
    assert not lost
    assert set(statuses) == {200}
