"""Web sockets: none of another page's, none that stays without the password, and none that stops requests."""

import base64
import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from flows.server.sockets import MOST_OF_AN_ADDRESS, SECONDS_TO_AUTHENTICATE
from tests.flows.prefect_server import LOGIN, until

PATHS = (
    "/events/in",
    "/events/out",
    "/logs/out",
    "/task_runs/subscriptions/scheduled",
    "/work_pools/tuneline/workers/connect",
)


def open_socket(api: str, path: str, origin: str | None = None) -> socket.socket:
    """Opens a web socket that answers nothing afterwards, not even a ping."""
    address = urlsplit(api)
    opened = socket.create_connection((address.hostname, address.port), timeout=10)
    headers = {
        "Host": address.netloc,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": "prefect",
    }
    if origin is not None:
        headers["Origin"] = origin
    lines = [f"GET {address.path}{path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    opened.sendall("\r\n".join([*lines, "", ""]).encode())
    return opened


def status_of(opened: socket.socket) -> int:
    return int(opened.recv(4096).split()[1])


def is_closed(opened: socket.socket) -> bool:
    """Reads what the server sent, and returns True if it ends with a closing frame (RFC 6455, 5.5.1), or if
    the connection was reset: on a busy machine, the oldest of 300 has not asked for a socket yet."""
    received = b""
    opened.settimeout(0.1)
    try:
        while part := opened.recv(4096):
            received += part
    except TimeoutError:
        pass
    except ConnectionResetError:
        return True
    return b"\x88" in received.rpartition(b"\r\n\r\n")[2]


@contextlib.contextmanager
def silent_sockets(api: str, path: str, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(open_socket(api, path)) for _ in range(count)]


def ask(api: str) -> float:
    """Asks for the deployments, and returns the seconds that it took."""
    started = time.monotonic()
    answer = httpx.post(f"{api}/deployments/filter", json={}, auth=tuple(LOGIN.split(":")), timeout=30)
    assert answer.status_code == 200
    return time.monotonic() - started


def send_text(opened: socket.socket, text: str) -> str:
    """Sends a short message, and returns the next one, or why the socket is closed (RFC 6455, 5.2)."""
    content = text.encode()
    assert len(content) < 126
    # masked with zeros, which change nothing
    opened.sendall(bytes([0x81, 0x80 | len(content), 0, 0, 0, 0]) + content)
    return opened.recv(4096)[2:].decode(errors="replace")


def first_answer(api: str, path: str, message: str) -> str:
    """Opens a socket, and returns the answer to its first message."""
    with open_socket(api, path) as opened:
        assert status_of(opened) == 101
        return send_text(opened, message)


@pytest.mark.parametrize("path", PATHS)
def test_socket_is_opened_for_pages_of_the_server_and_for_programs_only(served, path):
    own = served.api.removesuffix("/api")
    for origin in ("http://evil.example", "http://127.0.0.1:1", "null", f"{own}.evil.example", ""):
        with open_socket(served.api, path, origin) as opened:
            assert status_of(opened) == 403, origin
    for origin in (None, own):
        with open_socket(served.api, path, origin) as opened:
            assert status_of(opened) == 101, origin


@pytest.mark.parametrize("path", PATHS)
def test_socket_needs_the_password(served, path):
    for message in ("no json", "[]", '{"type": "auth", "token": 5}', '{"type": "filter"}'):
        assert "auth_success" not in first_answer(served.api, path, message)
    assert "auth_success" in first_answer(served.api, path, json.dumps({"type": "auth", "token": LOGIN}))
    assert "Traceback" not in (served.logs / "server.log").read_text()


def test_silent_sockets_stop_no_request_and_no_other_socket_and_are_closed(served):
    password = json.dumps({"type": "auth", "token": LOGIN})
    with silent_sockets(served.api, "/events/out", 300) as sockets:
        assert ask(served.api) < 2
        assert "auth_success" in first_answer(served.api, "/events/in", password)
        # the oldest ones make room for others, the last ones run out of time
        until(lambda: is_closed(sockets[0]), 2, "the oldest socket to be closed")
        assert not any(is_closed(one) for one in sockets[-MOST_OF_AN_ADDRESS // 2 :])
        until(lambda: is_closed(sockets[-1]), SECONDS_TO_AUTHENTICATE + 2, "the last socket to be closed")


def test_sockets_with_the_password_stop_no_request(served):
    """More of them than the requests that Prefect admits at a time."""
    password = json.dumps({"type": "auth", "token": LOGIN})
    with contextlib.ExitStack() as stack:
        for _ in range(120):
            opened = stack.enter_context(open_socket(served.api, "/events/in"))
            assert status_of(opened) == 101
            assert "auth_success" in send_text(opened, password)
        assert ask(served.api) < 2
