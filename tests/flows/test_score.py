"""Flow ``score`` against a real Prefect server, with a model of the small pipeline. test_deployments.py has a
worker run it."""

import json

import pyarrow.parquet as pq
import pytest
from prefect.events import emit_event

from flows.score import score
from tests.flows.conftest import UNLIKE, tickets
from tests.flows.prefect_server import events, until
from tuneline.core.runtime.files import locked
from tuneline.operations.inbox import METADATA

pytestmark = pytest.mark.timeout(600)


def scored(toy, folder: str = "scored") -> list[str]:
    return sorted(path.name for path in (toy.root / "data" / folder).iterdir())


def test_new_files_are_scored_once_and_bad_files_refused_with_the_reason(
    served, toy, registry, promoted, put
):
    put("good.csv", tickets(300))
    put("no-text.csv", tickets(3), column="body")
    state = score(return_state=True)
    assert state.is_failed(), "a refused file is to be seen"
    assert state.message.startswith("1 files, 300 rows, by v0.1.0; no drift")
    assert "refused no-text.csv" in state.message
    assert scored(toy) == ["good.csv.parquet", "no-text.csv.error.json"], "nothing half-written is left"
    assert (scored(toy, "inbox"), scored(toy, "archive")) == (["no-text.csv"], ["good.csv"])
    assert "'text'" in json.loads((toy.root / "data/scored/no-text.csv.error.json").read_text())["error"]

    table = pq.read_table(toy.root / "data/scored/good.csv.parquet")
    assert table.num_rows == 300
    assert "text" not in table.column_names, "texts are kept only when that is asked for"
    assert set(table["model_version"].to_pylist()) == {"v0.1.0"}
    known = [["billing", "parcel", "login", "other"][row * 7 % 400 % 4] for row in range(300)]
    assert sum(one == other for one, other in zip(table["label"].to_pylist(), known, strict=True)) > 200
    record = json.loads(pq.read_metadata(toy.root / "data/scored/good.csv.parquet").metadata[METADATA])
    assert (record["version"], record["commit"], record["rows"]) == (
        "v0.1.0",
        registry.production().commit,
        300,
    )
    again = score(return_state=True)
    assert (again.name, again.message) == ("NothingNew", "No new file.")
    put("no-text.csv", tickets(3))
    assert score(return_state=True).is_completed()
    assert scored(toy) == [
        "good.csv.parquet",
        "no-text.csv.parquet",
    ], "the corrected file is scored, and its refusal forgotten"
    assert scored(toy, "inbox") == []


def test_drift_event_is_sent_once_a_day(served, toy, promoted, put):
    put("drifted.csv", tickets(300, greeting=UNLIKE))
    state = score(return_state=True)
    assert state.is_completed(), "drift is no failure of the scoring"
    assert "drifted: length of texts" in state.message
    run = state.state_details.flow_run_id

    (event,) = until(lambda: events(served, "tuneline.data.drifted", run), 30, "the event")
    assert event["resource"]["prefect.resource.id"] == "tuneline.data.inbox"
    assert event["payload"]["version"] == "v0.1.0"
    assert event["payload"]["rows"] == 300
    assert [one["name"] for one in event["payload"]["measures"] if not one["met"]]

    put("more.csv", tickets(300, greeting=UNLIKE))
    more = score(return_state=True)
    assert "drifted: length of texts" in more.message
    emit_event("tuneline.test.later", resource={"prefect.resource.id": "tuneline.test"})
    until(lambda: events(served, "tuneline.test.later"), 30, "an event that is sent later")
    assert not events(served, "tuneline.data.drifted", more.state_details.flow_run_id)


@pytest.mark.promise("two-scorings")
def test_second_scoring_run_is_skipped(served, toy, promoted, put):
    put("new.csv", tickets(3))
    toy.state.mkdir(parents=True, exist_ok=True)
    with locked(toy.state / "scoring.lock", wait=0):
        assert score(return_state=True).name == "Skipped"
    assert not (toy.root / "data" / "scored").exists()
