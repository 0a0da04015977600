"""Who the server lets in: no request without the password, no other web page, no other host name."""

import os
import subprocess
import sys

import httpx
import pytest
from prefect.events import emit_event
from prefect.settings import PREFECT_SERVER_API_AUTH_STRING, temporary_settings

from flows.server.api import create_app, served_at, vacuum
from flows.server.schedule import AUTH, SERVER
from tests.conftest import ROOT
from tests.flows.prefect_server import LOGIN, until

EVIL = "https://evil.example"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.fixture
def ask(served):
    """Ask the server for its deployments, unless for something else."""

    def ask(method="POST", path="/deployments/filter", login=LOGIN, body="{}", **headers) -> httpx.Response:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        auth = tuple(login.split(":")) if login else None
        content = body if method == "POST" else None
        return httpx.request(
            method,
            served.api + path,
            auth=auth,
            content=content,
            headers={"Content-Type": "application/json", **names},
        )

    return ask


def test_old_runs_are_removed_by_the_server_unless_they_are_kept_for_ever():
    assert vacuum(None) == {}
    start = "PREFECT_SERVER_SERVICES_DB_VACUUM"
    assert vacuum(1.5) == {f"{start}_ENABLED": "events,flow_runs", f"{start}_RETENTION_PERIOD": "129600"}


def test_request_without_the_password_is_refused(ask):
    assert ask().status_code == 200
    for login in (None, "tests:wrong", "tests:"):
        assert ask(login=login).status_code == 401
        assert ask(login=login, path="/flow_runs/", body='{"name": "x"}').status_code == 401
        assert (
            ask(login=login, Content_Type="text/plain").status_code == 401
        )  # what a form of any page can send without asking


def test_pages_about_the_api_are_off(ask, served):
    for path in ("/docs", "/redoc", "/openapi.json", "/docs/oauth2-redirect"):
        assert httpx.get(served.api.removesuffix("/api") + path).status_code == 404
        assert ask("GET", path).status_code == 404


def test_socket_without_the_password_is_refused(ask):
    for path in ("/events/in", "/events/out", "/logs/out"):
        assert ask("GET", path, login=None, **UPGRADE).status_code == 403


def test_answers_are_readable_for_pages_of_the_server_only(ask, served):
    own = served.api.removesuffix("/api")
    assert ask(Origin=own).headers["Access-Control-Allow-Origin"] == own
    assert ask(Origin=own.replace("127.0.0.1", "localhost")).headers["Access-Control-Allow-Origin"]
    for origin in (EVIL, "http://127.0.0.1:1", "null"):
        assert "Access-Control-Allow-Origin" not in ask(Origin=origin).headers
        asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        preflight = ask("OPTIONS", login=None, Origin=origin, **asked)
        assert preflight.status_code == 400
        assert "Access-Control-Allow-Origin" not in preflight.headers


def test_other_host_names_are_refused(ask):
    for host in ("evil.example:4200", "evil.example", "0.0.0.0:4200", "127.0.0.1.evil.example"):
        assert ask(Host=host).status_code == 400
        assert ask("GET", "/health", Host=host).status_code == 400
        assert ask("GET", "/events/out", Host=host, **UPGRADE).status_code == 400
    assert ask(Host="localhost:4200").status_code == 200


def test_automations_pass_the_password_and_the_host_name(served):
    """The server sends their requests to itself."""
    deployment = served.client.read_deployment_by_name("train/train-on-demand").id
    before = {run.id for run in served.runs_of(deployment)}
    emit_event(
        "tuneline.data.ingested",
        resource={"prefect.resource.id": "tuneline.data.source"},
        payload={"rows": 1, "commit": "c0"},
    )
    (run,) = until(
        lambda: {run.id for run in served.runs_of(deployment)} - before,
        60,
        "the training that the automation requests",
    )
    served.client.delete_flow_run(run)  # a worker of another test would start it


def test_health_and_readiness_need_no_password(ask):
    assert ask("GET", "/health", login=None).status_code == 200
    ready = ask("GET", "/ready", login=None)
    assert (ready.status_code, ready.json()) == (200, {"message": "OK"})
    assert ask("POST", "/ready", login=None).status_code == 401


@pytest.mark.parametrize("password", [None, ""])
def test_application_without_a_password_is_not_created(monkeypatch, password):
    monkeypatch.setattr("flows.server.api.lock_at_begin", lambda: pytest.fail("the application is created"))
    refused = pytest.raises(SystemExit, match=f"The server has no password. Set {AUTH} to USER:PASSWORD")
    with temporary_settings({PREFECT_SERVER_API_AUTH_STRING: password}), refused:
        create_app(restart=lambda: None)


@pytest.mark.slow  # starts the server
@pytest.mark.parametrize("password", [None, ""])
def test_server_without_a_password_does_not_start(tmp_path, password):
    env = {**os.environ, "PREFECT_HOME": str(tmp_path), **({} if password is None else {AUTH: password})}
    command = [sys.executable, "-m", SERVER, "--port", "0"]
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode != 0
    assert f"The server has no password. Set {AUTH} to USER:PASSWORD" in done.stderr


def test_server_with_invalid_settings_does_not_start(tmp_path, monkeypatch):
    monkeypatch.setenv("PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS", "")  # which the application sets
    monkeypatch.setattr("flows.server.api.ROOT", tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "flows.yaml").write_text("retention: {prefect_day: 3}\n")
    with pytest.raises(SystemExit, match=r"retention\.prefect_day: unknown key"):
        create_app(restart=lambda: None)


@pytest.mark.parametrize(
    ("urls", "hosts", "origins"),
    [
        ((None, None), {"127.0.0.1", "localhost"}, set()),
        (
            ("http://127.0.0.1:4200/api", None),
            {"127.0.0.1", "localhost"},
            {"http://127.0.0.1:4200", "http://localhost:4200"},
        ),
        (
            ("http://server:4200/api", "https://train.example/api"),
            {"127.0.0.1", "localhost", "server", "train.example"},
            {"http://server:4200", "https://train.example"},
        ),
    ],
)
def test_server_is_served_at_its_addresses(urls, hosts, origins):
    named = {
        name: url for name, url in zip(("PREFECT_API_URL", "PREFECT_UI_API_URL"), urls, strict=True) if url
    }
    assert served_at(named) == (sorted(hosts), sorted(origins))
