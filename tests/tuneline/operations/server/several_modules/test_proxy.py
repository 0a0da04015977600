"""The proxy of ``compose.yaml`` before a real server: Debian's nginx with ``containers/nginx.conf``."""

import shutil
import socket
import ssl
import subprocess

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
