"""Flow ``watch`` on a real server: silence and a missing copy are said once."""

import pytest

from flows import watch as module
from flows.watch import watch
from tests.dvc_files import add_remote
from tests.flows.prefect_server import events, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def test_silence_and_a_missing_copy_are_alerts_once_a_day(served, toy, promoted, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "COPIED_WITHIN", module.timedelta(0))
    (toy.root / "conf").mkdir(exist_ok=True)
    settings = toy.root / "conf" / "flows.yaml"

    settings.write_text("alerts: {runs_silent_hours: 1000}\n")
    state = watch(return_state=True)
    assert state.name == "Completed", state.message
    assert state.message == "Nothing is wrong."

    settings.write_text("alerts: {runs_silent_hours: 1.0e-9}\n")
    add_remote(toy.root, tmp_path / "shelf", local=True)
    state = watch(return_state=True)
    assert (state.type, state.name) == ("COMPLETED", "Alert")
    run = state.state_details.flow_run_id
    sent = until(
        lambda: len(found := events(served, "tuneline.watch.alert", run)) == 2 and found, 30, "two alerts"
    )
    messages = {one["payload"]["alert"]: one["payload"]["message"] for one in sent}
    assert "of flow train" in messages["runs-silent"]
    assert "has no second copy: the DVC remote does not have its files" in messages["production-without-copy"]
    assert all(message in state.message for message in messages.values())

    again = watch(return_state=True)
    assert again.name == "Alert"
    assert not events(served, "tuneline.watch.alert", again.state_details.flow_run_id), "not twice a day"
