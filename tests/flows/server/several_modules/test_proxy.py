"""The proxy of ``compose.yaml`` before a real server: Debian's nginx with ``containers/nginx.conf``."""

import shutil
import socket
import ssl
import subprocess
import time

import httpx
import pytest

from tests.conftest import ROOT
from tests.flows.prefect_server import LOGIN, free_port, until

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin")
LOGIN_PAIR = tuple(LOGIN.split(":"))


@pytest.fixture
def proxy(served, tmp_path):
    """The address of the proxy, with a certificate of its own."""
    if NGINX is None:
        pytest.skip("nginx is not there: apt-get install nginx-light")
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    make += ["-addext", "subjectAltName=DNS:localhost"]
    make += ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subprocess.run(make, check=True, capture_output=True)

    port = free_port()
    server = (ROOT / "containers/nginx.conf").read_text()
    server = server.replace("server:4200", served.api.removeprefix("http://").removesuffix("/api"))
    server = server.replace("/tls/", f"{tmp_path}/").replace("listen 443", f"listen 127.0.0.1:{port}")
    server = server.replace("client_header_timeout 10s", "client_header_timeout 1s")
    temporary = ""
    for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
        temporary += f"{name}_temp_path {tmp_path}/{name};\n"
    config = tmp_path / "nginx.conf"
    config.write_text(
        f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log;\n"
        f"events {{}}\nhttp {{ access_log off; {temporary} {server} }}\n"
    )
    process = subprocess.Popen([NGINX, "-c", str(config), "-p", str(tmp_path)])
    try:
        until(lambda: answers(port), 20, "nginx")
        yield f"https://localhost:{port}"
    finally:
        process.terminate()
        process.wait(20)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_proxy_serves_the_api_with_the_password_only(proxy, tmp_path):
    trusted = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    with httpx.Client(base_url=proxy, verify=trusted) as client:
        for auth, status in ((None, 401), (("tests", "wrong"), 401), (LOGIN_PAIR, 200)):
            assert client.post("/api/flows/filter", auth=auth, json={}).status_code == status
        for page in ("/docs", "/api/docs", "/openapi.json", "/redoc"):
            assert client.get(page).status_code == 404


def test_worker_and_events_work_through_the_proxy(proxy, served, tmp_path):
    """``prefect event emit`` uses a web socket; the worker's look for work uses requests."""
    env = {
        **served.env,
        "PREFECT_API_URL": f"{proxy}/api",
        "PREFECT_API_SSL_CERT_FILE": str(tmp_path / "cert.pem"),
    }
    emitted = ["prefect", "event", "emit", "tuneline.proxy.tried", "--resource-id", "tuneline.proxy"]
    done = subprocess.run(emitted, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = {"filter": {"event": {"name": ["tuneline.proxy.tried"]}}}

    def arrived() -> list:
        return served.client.request("POST", "/events/filter", json=wanted).json()["events"]

    until(arrived, 60, "the event")
    worker = ["prefect", "worker", "start", "--pool", "tuneline", "--work-queue", "nobody", "--run-once"]
    done = subprocess.run(worker, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_silent_connection_is_closed(proxy, tmp_path):
    port = int(proxy.rpartition(":")[2])
    trusted = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        trusted.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        began = time.monotonic()
        connection.sendall(b"GET /api/health HTTP/1.1\r\n")
        answer = connection.recv(4096)
        assert answer == b"" or b" 408 " in answer
        assert time.monotonic() - began < 20
