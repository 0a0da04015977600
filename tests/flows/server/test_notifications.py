"""What ``conf/notifications.yaml`` sends arrives, and the command that sets the address shows it to
nobody."""

import json
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prefect.client.schemas.objects import State, StateType
from prefect.events import emit_event

from flows.server import notifications
from tests.conftest import ROOT
from tests.flows.prefect_server import LOGIN, until
from tuneline.messages import SET, TEST, messages
from tuneline.runtime.errors import ParamsError

HIDDEN = "s3cret-T0ken"


@pytest.fixture
def people():
    """Somebody who reads what a web hook sends, unless they are away."""
    read: list[dict] = []
    away = threading.Event()

    class Mailbox(BaseHTTPRequestHandler):
        def do_POST(self):
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(503 if away.is_set() else 200)
            self.end_headers()
            if not away.is_set():
                read.append({**message, "path": self.path})

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Mailbox) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{HIDDEN}", read, away
        server.shutdown()


def test_projects_own_notifications_are_valid_and_name_no_block():
    entries = notifications.read_entries(ROOT)
    assert "block_document_id" not in str(entries)
    assert len({entry["name"] for entry in entries}) == len(entries)


def test_notifications_that_are_no_yaml_are_named_with_their_line(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "notifications.yaml").write_text("automations:\n\t- name: a\n")
    with pytest.raises(ParamsError, match=r"conf/notifications\.yaml, line 2: invalid YAML"):
        notifications.read_entries(tmp_path)


@pytest.mark.parametrize(
    "content", ["", "automations:\n", "automations: [{name: a}]\n", "automations: [1]\n"]
)
def test_invalid_notifications_error_names_the_file(tmp_path, content):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "notifications.yaml").write_text(content)
    with pytest.raises(notifications.NotificationsError, match=r"conf/notifications\.yaml"):
        notifications.read_entries(tmp_path)


@pytest.fixture
def notify(served, people, tmp_path):
    """Runs the command, in a repository with a copy of our notifications, and never shows the address."""
    (tmp_path / "conf").mkdir()
    shutil.copy(ROOT / notifications.NOTIFICATIONS, tmp_path / "conf")

    def notify(action: str, address: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "flows.server.notifications", action]
        env = {**served.env, "TUNELINE_REPOSITORY": str(tmp_path)}
        done = subprocess.run(
            command, cwd=ROOT, env=env, input=f"{address}\n", capture_output=True, text=True, check=False
        )
        assert HIDDEN not in done.stdout + done.stderr
        return done

    yield notify
    notify("remove")


@pytest.mark.slow  # a server of its own, unless other tests have one
@pytest.mark.timeout(400)
def test_address_is_set_replaced_tried_and_removed(served, people, notify):
    address, read, away = people
    before = {one.name for one in served.client.read_automations()}
    assert "notifications set" in notify("test").stderr, "no address yet"
    known = messages(served.api, LOGIN)
    assert "nobody is told" in known.text
    assert known.remedy == SET
    assert "not an address" in notify("set", "nosuch://x").stderr
    for _ in range(2):
        done = notify("set", address)
        assert done.stdout.startswith("Notifications go to JSON:"), done.stderr
    known = messages(served.api, LOGIN)
    assert known == ("no message to people has arrived since its address was set", TEST)
    ours = [one.name for one in served.client.read_automations() if one.name not in before]
    assert sorted(ours) == sorted(entry["name"] for entry in notifications.read_entries(ROOT)), "each once"

    away.set()
    failed = notify("test")
    assert (failed.returncode, read) == (1, [])
    assert "503" in failed.stderr
    away.clear()
    assert notify("test").returncode == 0
    assert [(one["title"], one["path"]) for one in read] == [("Tuneline: test", f"/{HIDDEN}")]
    known = messages(served.api, LOGIN)
    assert known.text.startswith("the last message to people arrived on 20")
    assert known.remedy is None

    assert "the address" in notify("remove").stdout
    assert {one.name for one in served.client.read_automations()} == before
    assert "nothing to remove" in notify("remove").stdout


@pytest.mark.slow  # the same
@pytest.mark.timeout(400)
@pytest.mark.promise("no-worker")
def test_everything_that_people_are_told_of_arrives(served, people, notify, tmp_path):
    address, read, _ = people

    def arrived(title: str) -> str:
        return until(
            lambda: next((one["message"] for one in read if one["title"] == title), None), 120, title
        )

    assert notify("set", address).returncode == 0
    figures = {
        "version": "v0.2.0",
        "commit": "c" * 40,
        "before": "v0.1.0",
        "reason": "better",
        "metric": "accuracy",
        "candidate": 0.9,
    }
    words = {"message": "In words.", "alert": "tuneline.scoring.behind", "source": "crm"}
    for name, resource, payload in (
        ("tuneline.model.promoted", "tuneline.model.onnx", figures),
        ("tuneline.data.drifted", "tuneline.data.inbox", {"rows": 500, "version": "v0.2.0"}),
        ("tuneline.data.ingested", "tuneline.data.crm", words),
        ("tuneline.runs.silent", "tuneline.runs.train", words),
        ("tuneline.alert.resolved", "tuneline.scoring.inbox", words),
    ):
        emit_event(name, resource={"prefect.resource.id": resource}, payload=payload)
    deployment = served.client.read_deployment_by_name("train/train-on-demand")
    run = served.client.create_flow_run_from_deployment(deployment.id)
    served.client.set_flow_run_state(
        run.id, State(type=StateType.FAILED, message="Stage 'validate' ended with exit code 1."), force=True
    )
    assert arrived("tuneline.model.promoted: v0.2.0") == "better (accuracy 0.9, v0.1.0)"
    until(lambda: messages(served.api, LOGIN).remedy is None, 30, "the server to record that it arrived")
    assert arrived("Tuneline: the data drifted").startswith("500 rows scored by v0.2.0")
    for title in (
        "tuneline.data.ingested: crm",
        "tuneline.runs.silent",
        "tuneline.alert.resolved: tuneline.scoring.behind",
    ):
        assert arrived(title) == "In words."
    assert "Stage 'validate' ended with exit code 1." in arrived("Tuneline: train failed")

    file = tmp_path / notifications.NOTIFICATIONS
    (drifted,) = served.client.read_automations_by_name("tuneline: tell of silence")
    served.client.pause_automation(drifted.id)
    file.write_text(
        file.read_text()
        .replace("within: 10800", "within: 10")
        .replace("tell of drift", "tell of drift again")
    )
    file.write_text(file.read_text().replace("Sent by flow watch", "Now sent by flow watch"))
    assert notify("update").returncode == 0
    names = [one.name for one in served.client.read_automations()]
    assert ("tuneline: tell of drift again" in names, "tuneline: tell of drift" in names) == (True, False)
    assert not served.client.read_automations_by_name("tuneline: tell of silence")[0].enabled, (
        "a person disabled it"
    )
    assert "No worker runs" in arrived("Tuneline: no run of flow watch completed for hours")
