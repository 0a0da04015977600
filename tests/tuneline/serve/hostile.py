"""Requests that are meant to harm a service, beside a client that asks honestly.

Each has to get an error or no answer at all, the log no traceback and none of the texts, and the honest
client all its answers.
"""

import json
import random
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx

MARK = "mYsEcReT"
"""Word in the texts of hostile requests, by which the log is searched."""
PATHS = ("/predict", "/v1/predictions")


def request(
    path: str, body: bytes, *headers: str, method: str = "POST", version: str = "1.1", host: str = "127.0.0.1"
) -> bytes:
    """Return the bytes of a request."""
    lines = [f"{method} {path} HTTP/{version}", f"Host: {host}", f"Content-Length: {len(body)}"]
    lines += ["Content-Type: application/json", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def bodies(draw: random.Random) -> list[bytes]:
    """Return bodies that no path takes."""
    size = draw.choice((10, 1_000, 100_000))
    text = json.dumps(MARK).encode()
    return [
        b"",
        b"{",
        b"null",
        text,
        b'{"inputs": ' + text,
        b'{"inputs": ' + b"[" * size + b"]" * size + b"}",
        b'{"rows": ' + b'{"a":' * size + b"1" + b"}" * size + b"}",
        b'{"inputs": ' + b"9" * size + b"}",
        b'{"inputs": NaN, "rows": Infinity}',
        b'{"inputs": [["a", -1e999]], "rows": [1e999]}',
        b'{"inputs": "\xff\xfe' + MARK.encode() + b'"}',
        b'{"inputs": [["\\ud800", "\\udfff"]]}',
        b'{"inputs": [["", "\\u0000"]], "rows": ["\\u0000\\u0001", " "]}',
        b'{"inputs": [' + b'["a","b"],' * (2 * size) + b'["a","b"]]}',
        b'{"inputs": [' + b",".join([text] * (2 * size)) + b"]}",
        json.dumps({"inputs": [MARK, "!" * 1_000_000], "rows": [[MARK, "!" * 1_000_000]]}).encode(),
        b'{"inputs": "' + b"x" * 3_000_000 + b'"}',
        b'{"inputs": [["a","b","c"]], "rows": [["a","b","c"]]}',
        b'{"inputs": [["a", {"b": 1}]], "truncate": 7}',
        bytes(draw.randrange(256) for _ in range(size // 10)),
    ]


def whole_requests(draw: random.Random) -> list[bytes]:
    """Return requests that arrive at once."""
    path = draw.choice(PATHS)
    body = json.dumps({"inputs": [MARK]}).encode()
    requests = [request(path, hostile) for hostile in bodies(draw)]
    for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "BREW"):
        requests.append(request(path, b"", method=method))
    for host in ("evil.example", "127.0.0.1.evil.example", "", "[", "127.0.0.1@evil.example", "\xe9"):
        requests.append(request(path, body, host=host))
    return [
        *requests,
        request(path, body, "Origin: https://evil.example"),
        request(path, body, "Sec-Fetch-Site: cross-site"),
        request(path, body, "Content-Type: text/plain"),
        request(path, body, "Content-Length: 5"),
        request(path, body, "Transfer-Encoding: chunked"),
        request(path, body, "Content-Encoding: gzip"),
        request(path, body, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"),
        request(path, body, *(f"X-{number}: {'a' * 100}" for number in range(2_000))),
        request("/" + "a" * 100_000, body),
        request("/v1/%00%ff%2e%2e/predictions", body),
        request("http://evil.example/predict", body),
        request("/../../etc/passwd", b"", method="GET"),
        request(path, body, version="1.0"),
        request(path, body, version="9.9"),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x00" * 1000,
        request(path, body) * 200,
        request(path, body)[:-3],
        request(path, b"")[:-2].replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"\r\nZZ\r\n",
    ]


def send(port: int, content: bytes, seconds: float) -> str:
    """Send bytes, and return the statuses of the answers, or how the connection ended."""
    answer = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as opened:
            opened.sendall(content)
            while chunk := opened.recv(1 << 16):
                answer += chunk
                if content.count(b" HTTP/1.1\r\nHost") < 2:
                    break
    except TimeoutError:
        pass
    except OSError as error:
        if not answer:
            return type(error).__name__
    statuses = {line.split()[1].decode() for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.")}
    return " ".join(sorted(statuses)) or "no answer"


def honest(
    port: int, stop: threading.Event, texts: list[str], milliseconds: list[float], faults: list[str]
) -> None:
    """Ask one row after the other until told to stop."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
        while not stop.is_set():
            started = time.perf_counter()
            try:
                answer = client.post("/predict", json={"inputs": texts})
                if answer.status_code != 200:
                    faults.append(f"{answer.status_code} {answer.text[:100]}")
            except httpx.HTTPError as error:
                faults.append(repr(error))
            milliseconds.append(1000 * (time.perf_counter() - started))
            time.sleep(0.01)


def attack(port: int, count: int, seed: int) -> Counter[str]:
    """Send so many requests, eight at a time; count how they ended."""
    draw = random.Random(seed)
    contents: list[bytes] = []
    while len(contents) < count:
        contents += whole_requests(draw)
    draw.shuffle(contents)
    with ThreadPoolExecutor(8) as threads:
        return Counter(threads.map(lambda content: send(port, content, 20), contents[:count]))
