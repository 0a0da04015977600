"""``make serve`` leaves other people's servers and databases alone."""

import socket

import pytest

from flows.server import serve
from tests.flows.prefect_server import free_port


def test_used_port_is_reported_before_anything_starts(monkeypatch):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr("sys.argv", ["serve", "--port", str(port)])
        with pytest.raises(SystemExit, match=rf"127.0.0.1:{port}.*Address already in use.*--port {port + 1}"):
            serve.main()


def test_second_server_does_not_share_the_database(monkeypatch, tmp_path):
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    with (
        serve.exclusive("127.0.0.1", free_port()),
        pytest.raises(SystemExit, match=rf"{tmp_path}.*PREFECT_HOME"),
        serve.exclusive("127.0.0.1", free_port()),
    ):
        pass
    with serve.exclusive("127.0.0.1", free_port()):
        pass
