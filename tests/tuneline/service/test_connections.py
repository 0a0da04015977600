"""Whose connection is closed where too many are idle."""

import contextlib
import http.client
import socket

from tuneline.service.connections import MOST_IDLE


def test_connection_that_has_had_an_answer_is_kept_before_silent_ones(pairs):
    host, port = pairs.address.removeprefix("http://").split(":")
    kept = http.client.HTTPConnection(host, int(port), timeout=20)
    with contextlib.closing(kept), contextlib.ExitStack() as stack:
        kept.request("GET", "/health")
        assert kept.getresponse().read()
        asked = kept.sock
        silent = []
        for _ in range(MOST_IDLE + 30):
            silent.append(stack.enter_context(socket.create_connection((host, int(port)), timeout=20)))
        assert silent[0].recv(10) == b""
        kept.request("GET", "/health")
        assert kept.getresponse().status == 200
        assert kept.sock is asked
