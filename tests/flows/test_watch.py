"""Flow ``watch`` on a real server: what is silent, old or behind is said once, and that it is over as
well."""

import pytest

from flows.watch import watch
from tests.dvc_files import add_remote
from tests.flows.conftest import sh, tickets
from tests.flows.prefect_server import events, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
ALERTS = {
    "tuneline.runs.silent",
    "tuneline.production.old",
    "tuneline.production.one_copy",
    "tuneline.scoring.behind",
}


def limit(root, value: str) -> None:
    (root / "conf").mkdir(exist_ok=True)
    keys = ("runs_silent_hours", "production_old_days", "scoring_behind_hours", "one_copy_hours")
    (root / "conf" / "flows.yaml").write_text("alerts:\n" + "".join(f"  {key}: {value}\n" for key in keys))


@pytest.mark.promise("silence")
def test_alerts_are_sent_once_a_day_and_resolved_once(served, toy, promoted, put, tmp_path):
    put("new.csv", tickets(3))
    add_remote(toy.root, tmp_path / "shelf", local=True)

    def watched() -> tuple:
        state = watch(return_state=True)
        return state, state.state_details.flow_run_id

    def sent(run, *names: str) -> list[dict]:
        return [one for name in names for one in events(served, name, run)]

    limit(toy.root, "1.0e-9")
    state, run = watched()
    assert (state.type, state.name) == ("COMPLETED", "Alert")
    assert "of flow train" in state.message
    assert "onnx v0.1.0, which is in production, was trained less than an hour ago" in state.message
    assert (
        "onnx v0.1.0, which is in production, has no second copy: the DVC remote does not have its files"
        in state.message
    )
    assert "new.csv has waited to be scored for less than an hour" in state.message
    first = until(lambda: len(found := sent(run, *ALERTS)) == 4 and found, 30, "four alerts")
    assert {one["event"] for one in first} == ALERTS
    assert {one["payload"]["message"][:7] for one in first} >= {"onnx v0", "new.csv"}

    again = watched()[1]
    limit(toy.root, "1000")
    state, over = watched()
    assert state.name == "Completed"
    until(lambda: len(sent(over, "tuneline.alert.resolved")) == 4, 30, "that all of it is over")
    assert not sent(again, *ALERTS), "not twice a day"

    limit(toy.root, "null")
    state, quiet = watched()
    assert state.name == "Completed"
    assert not sent(quiet, "tuneline.alert.resolved", *ALERTS)


def test_nothing_to_watch_is_no_alert(served, toy):
    limit(toy.root, "1000")
    state = watch(return_state=True)
    assert state.name == "Completed"
    assert (
        "no model is in production; no copy of what is in production is asked for; no file waits to be scored"
        in state.message
    )
    assert "DVC's cache" in state.message
    assert "the server is ready" in state.message
    assert "no address is set (python -m flows.server.notifications set)" in state.message


@pytest.mark.promise("rewritten-branch")
def test_lost_rows_waiting_labels_and_what_no_gate_decided_are_named(served, toy, promoted, tmp_path):
    limit(toy.root, "1000")
    with (toy.root / "conf" / "flows.yaml").open("a") as settings:
        settings.write("  branch_hours: 1.0e-9\n  ingest_behind_hours: 1.0e-9\n")
        settings.write("ingest: {sources: [{name: labels, folder: data/labelled}]}\n")
    (toy.root / "data" / "labelled").mkdir()
    (toy.root / "data" / "labelled" / "late.csv").write_text("text,label\n")
    sh("git", "clone", "--quiet", "--bare", str(toy.root), "origin.git", cwd=tmp_path)
    sh("git", "remote", "add", "origin", str(tmp_path / "origin.git"), cwd=toy.root)
    first = watch(return_state=True)
    assert "late.csv has waited to be ingested" in first.message
    assert (
        "onnx v0.1.0 is in production without a decision of the gate (no gate judged it): " in first.message
    )

    sh(
        "git",
        "commit",
        "--quiet",
        "--allow-empty",
        "--message=Ingest new rows\n\nIngested-Rows: 7\nPrefect-Run: 1",
        cwd=toy.root,
    )
    sh("git", "push", "--quiet", "origin", "main", cwd=toy.root)
    sh("git", "update-ref", "refs/heads/main", "main~1", cwd=tmp_path / "origin.git")
    lost = watch(return_state=True)
    assert lost.name == "Alert"
    assert (
        "main of origin was rewritten: 1 commits are in no branch of it any more, with 7 rows of flow ingest"
        in lost.message
    )
    sent = until(
        lambda: events(served, "tuneline.branch.rewritten", lost.state_details.flow_run_id), 30, "the alert"
    )
    assert sent[0]["payload"]["message"].startswith("main of origin was rewritten")
