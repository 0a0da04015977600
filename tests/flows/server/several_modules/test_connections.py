"""Connections that do nothing, or are slow on purpose, keep nobody else from the server."""

import contextlib
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from tests.flows.prefect_server import LOGIN, until
from tuneline.service.connections import MOST_IDLE, SECONDS_FOR_A_REQUEST, SECONDS_TO_READ


def connect(api: str, sent: bytes = b"") -> socket.socket:
    address = urlsplit(api)
    opened = socket.create_connection((address.hostname, address.port), timeout=10)
    opened.sendall(sent.replace(b"HOST", address.netloc.encode()))
    return opened


@contextlib.contextmanager
def connections(api: str, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connect(api, sent)) for _ in range(count)]


def is_closed(opened: socket.socket) -> bool:
    opened.settimeout(0.05)
    try:
        while opened.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def ask(api: str) -> float:
    """Asks for the deployments, and returns the seconds that it took."""
    started = time.monotonic()
    answer = httpx.post(f"{api}/deployments/filter", json={}, auth=tuple(LOGIN.split(":")), timeout=30)
    assert answer.status_code == 200
    return time.monotonic() - started


HEAD = b"POST /api/deployments/filter HTTP/1.1\r\nHost: HOST\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="silent", marks=pytest.mark.slow),
        pytest.param(HEAD, id="head", marks=pytest.mark.slow),
        pytest.param(HEAD + b"Content-Length: 1000\r\nContent-Type: application/json\r\n\r\n{", id="body"),
    ],
)
def test_requests_that_are_never_complete_stop_nobody_and_are_closed(served, sent):
    with connections(served.api, 300, sent) as opened:
        for _ in range(3):
            assert ask(served.api) < 2
        assert is_closed(opened[0]), f"only {MOST_IDLE} may wait"
        until(lambda: is_closed(opened[-1]), SECONDS_FOR_A_REQUEST + 3, "the last one to be closed")


def test_head_that_comes_byte_by_byte_is_given_up(served):
    with connect(served.api, HEAD) as opened:
        started = time.monotonic()
        with pytest.raises(ConnectionError):
            while time.monotonic() < started + SECONDS_FOR_A_REQUEST + 5:
                opened.sendall(b"X-A: b\r\n")
                time.sleep(0.2)
        assert time.monotonic() - started < SECONDS_FOR_A_REQUEST + 3


def test_connection_is_used_again_after_an_answer(served):
    with httpx.Client(timeout=30) as client:
        for _ in range(3):
            assert client.get(f"{served.api}/health").text == "true"
            time.sleep(1)


@pytest.mark.slow  # half a minute
def test_answer_that_is_not_read_is_given_up(served):
    """Many requests on one connection, whose answers its client leaves."""
    request = b"GET /api/health HTTP/1.1\r\nHost: HOST\r\n\r\n"
    with socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        address = urlsplit(served.api)
        opened.connect((address.hostname, address.port))
        opened.settimeout(1)
        started = time.monotonic()
        with pytest.raises(ConnectionError):
            while time.monotonic() < started + SECONDS_TO_READ + 30:
                with contextlib.suppress(TimeoutError):
                    opened.sendall(request.replace(b"HOST", address.netloc.encode()) * 100)
        assert ask(served.api) < 2
