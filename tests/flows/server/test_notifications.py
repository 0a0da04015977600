"""conf/notifications.yaml: accepted by a real server, and what it sends arrives."""

import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.schemas.objects import State, StateType
from prefect.events import emit_event

from tests.conftest import ROOT
from tests.flows.prefect_server import until


@pytest.fixture
def people():
    """Somebody who reads what a webhook sends."""
    read: list[dict] = []

    class Mailbox(BaseHTTPRequestHandler):
        def do_POST(self):
            read.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Mailbox) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", read
        server.shutdown()


@pytest.mark.slow  # a server of its own, unless other tests have one
@pytest.mark.timeout(400)
def test_notifications_of_promotions_drift_and_failures(served, people, tmp_path):
    address, read = people
    message = {"subject": "{{subject}}", "body": "{{body}}"}
    block = CustomWebhookNotificationBlock(name="people", url=address, json_data=message)
    block_id = block.save("people", overwrite=True, client=None)
    file = tmp_path / "notifications.yaml"
    notifications = (ROOT / "conf/notifications.yaml").read_text(encoding="utf-8")
    file.write_text(re.sub(r"(?<=block_document_id: ).+", str(block_id), notifications))
    command = [sys.executable, "-m", "prefect", "automation", "create", "--from-file", str(file)]
    created = subprocess.run(command, env=served.env, capture_output=True, text=True, check=False)
    assert created.returncode == 0, created.stdout + created.stderr

    figures = {"version": "v0.2.0", "commit": "c" * 40, "before": "v0.1.0", "reason": "better", "metric": "accuracy", "candidate": 0.9}
    emit_event("tuneline.model.promoted", resource={"prefect.resource.id": "tuneline.model.onnx"}, payload=figures)
    emit_event("tuneline.data.drifted", resource={"prefect.resource.id": "tuneline.data.inbox"}, payload={"rows": 500, "version": "v0.2.0"})
    deployment = served.client.read_deployment_by_name("train/train-on-demand")
    run = served.client.create_flow_run_from_deployment(deployment.id)
    served.client.set_flow_run_state(run.id, State(type=StateType.FAILED, message="Stage 'validate' ended with exit code 1."), force=True)
    told = until(lambda: len(read) >= 3 and {one["subject"]: one["body"] for one in read}, 120, "three messages")
    assert told["tuneline.model.promoted: v0.2.0"] == "better (accuracy 0.9, v0.1.0)"
    assert told["Tuneline: the data drifted"].startswith("500 rows scored by v0.2.0")
    assert "Stage 'validate' ended with exit code 1." in told["Tuneline: train failed"]
