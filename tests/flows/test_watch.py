"""Flow ``watch`` on a real server: what is silent, old or behind is said once, and that it is over as well."""

import pytest

from flows.watch import watch
from tests.dvc_files import add_remote
from tests.flows.conftest import tickets
from tests.flows.prefect_server import events, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
ALERTS = {"tuneline.runs.silent", "tuneline.production.old", "tuneline.production.one_copy", "tuneline.scoring.behind"}


def limit(root, value: str) -> None:
    (root / "conf").mkdir(exist_ok=True)
    keys = ("runs_silent_hours", "production_old_days", "scoring_behind_hours", "one_copy_hours")
    (root / "conf" / "flows.yaml").write_text("alerts:\n" + "".join(f"  {key}: {value}\n" for key in keys))


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
    assert "onnx v0.1.0, which is in production, has no second copy: the DVC remote does not have its files" in state.message
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
    assert "no model is in production; no copy of what is in production is asked for; no file waits to be scored" in state.message
    assert "DVC's cache" in state.message
