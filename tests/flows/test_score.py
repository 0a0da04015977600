"""Flow ``score`` against a real Prefect server, with a model of the small pipeline. test_deployments.py has a
worker run it."""

import json
import os
import sys

import pyarrow.parquet as pq
import pytest
from prefect.events import emit_event
from ruamel.yaml import YAML

from flows.score import score
from tests.conftest import ROOT
from tests.faults.clocks import date_file
from tests.faults.concurrency import at_once
from tests.flows.conftest import UNLIKE, sh, tickets
from tests.flows.prefect_server import events, until
from tuneline.predict.scored import METADATA
from tuneline.runtime.locks import locked

pytestmark = pytest.mark.timeout(600)


def scored(toy, folder: str = "scored") -> list[str]:
    return sorted(path.name for path in (toy.root / "data" / folder).iterdir())


def test_files_wait_without_a_model_in_production(served, toy, put):
    put("new.csv", tickets(3))
    state = score(return_state=True)
    assert (state.name, state.message) == ("NoModel", "No model is in production yet; 1 files wait.")
    assert not (toy.root / "data" / "scored").exists()


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
        registry.in_stage("production").commit,
        300,
    )
    assert record["archived"] == "data/archive/good.csv"
    assert set(served.tasks(state.state_details.flow_run_id)) == {
        "score files",
        "drift",
    }, "a task per file would take longer than it"

    again = score(return_state=True)
    assert (again.name, again.message) == ("NothingNew", "No new file.")
    put("no-text.csv", tickets(3))
    assert score(return_state=True).is_completed()
    assert scored(toy) == [
        "good.csv.parquet",
        "no-text.csv.parquet",
    ], "the corrected file is scored, and its refusal forgotten"
    assert scored(toy, "inbox") == []


@pytest.mark.slow  # starts Ray
def test_ray_scores_files_as_the_local_engine_does(served, toy, promoted, put, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for engine in ("local", "ray"):
        settings = YAML(typ="safe", pure=True).load(toy.root / "conf/flows.yaml") or {}
        settings["scoring"] = {
            **settings.get("scoring", {}),
            "engine": engine,
            "workers": None if engine == "local" else 2,
        }
        YAML().dump(settings, toy.root / "conf/flows.yaml")
        put(f"{engine}-1.csv", tickets(300))
        put(f"{engine}-2.csv", tickets(20))
        put(f"{engine}-3.csv", tickets(3), column="body")
        state = score(return_state=True)
        assert state.message.startswith("2 files, 320 rows, by v0.1.0")
        assert f"refused {engine}-3.csv" in state.message
        (toy.root / f"data/inbox/{engine}-3.csv").unlink()
    for number in (1, 2):
        local, ray = (
            pq.read_table(toy.root / f"data/scored/{engine}-{number}.csv.parquet")
            for engine in ("local", "ray")
        )
        assert ray.equals(local)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    put("new.csv", tickets(3))
    state = score(return_state=True)
    assert state.is_failed()
    assert "RAY_ADDRESS=127.0.0.1:1 cannot be joined" in state.message
    assert "new.csv" in scored(toy, "inbox"), "the next run scores it"


def test_file_with_a_bad_row_has_no_output(served, toy, promoted, put):
    put(
        "bad.jsonl",
        [json.dumps({"text": text}) for text in tickets(5)] + ['{"text": '],
        column='{"text": "please help w1"}',
    )
    assert score(return_state=True).is_failed()
    assert scored(toy) == ["bad.jsonl.error.json"]


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
    assert [one["name"] for one in event["payload"]["measures"] if one["drifted"]]

    put("more.csv", tickets(300, greeting=UNLIKE))
    more = score(return_state=True)
    assert "drifted: length of texts" in more.message
    emit_event("tuneline.test.later", resource={"prefect.resource.id": "tuneline.test"})
    until(lambda: events(served, "tuneline.test.later"), 30, "an event that is sent later")
    assert not events(served, "tuneline.data.drifted", more.state_details.flow_run_id)


def test_second_scoring_run_is_skipped(served, toy, promoted, put):
    put("new.csv", tickets(3))
    toy.state.mkdir(parents=True, exist_ok=True)
    with locked(toy.state / "scoring.lock", wait=0):
        assert score(return_state=True).name == "Skipped"
    assert not (toy.root / "data" / "scored").exists()


def test_score_uses_promotions_of_origin_and_continues_without_origin(served, toy, promoted, put, tmp_path):
    sh("git", "clone", "--quiet", "--bare", str(toy.root), "origin.git", cwd=tmp_path)
    sh("git", "remote", "add", "origin", str(tmp_path / "origin.git"), cwd=toy.root)
    sh("git", "tag", "--delete", "onnx@v0.1.0", "onnx#production#1", cwd=toy.root)
    put("one.csv", tickets(3))
    assert score(return_state=True).message.startswith("1 files, 3 rows, by v0.1.0")
    sh("git", "remote", "set-url", "origin", str(tmp_path / "gone.git"), cwd=toy.root)
    put("two.csv", tickets(3))
    state = score(return_state=True)
    assert state.message.startswith("1 files, 3 rows, by v0.1.0")
    served.wait_for_line(state.state_details.flow_run_id, "are unknown")


SCORES = "from flows.score import score; print('RESULT', score(return_state=True).name)"
SENDS = """
import sys
from pathlib import Path
from flows.alerts import send_if_due
from tests.faults.kills import killed
resource = {"prefect.resource.id": "tuneline.data.inbox"}
event = {"event": "tuneline.data.drifted", "resource": resource, "payload": {"version": "v9.9.9"}}
send = lambda: send_if_due(Path(sys.argv[1]), "v9.9.9", 24, **event)
print("RESULT", killed(send, int(sys.argv[2]), lambda event, _: event == "os.rename"))
"""


# the lock, the names and the refusals each have a faster test, here and in tests/flows/inbox/test_inbox.py
@pytest.mark.slow
@pytest.mark.promise("two-scorings")
def test_problem_of_one_file_stops_no_other_and_two_runs_score_each_row_once(served, toy, promoted, put):
    inbox, outbox = toy.root / "data/inbox", toy.root / "data/scored"
    outbox.mkdir(parents=True)
    long, binary = "l" * 246 + ".csv", os.fsdecode(b"caf\xe9.csv")
    for name in ("tried.csv", "scored.csv", "future.csv", long, binary):
        put(name, tickets(3))
    put("bad.csv", tickets(3), column="body")
    date_file(inbox / "future.csv", 3600)
    (outbox / "tried.csv.error.json").touch()
    (outbox / "scored.csv.parquet").write_bytes(b"PAR1")

    command = [sys.executable, "-c", SCORES]
    env = {**served.env, "TUNELINE_REPOSITORY": str(toy.root), "PYTHONPATH": str(ROOT)}
    ended = at_once(command, command, cwd=toy.root, env=env, timeout=300)
    assert sorted(line for one in ended for line in one.stdout.splitlines() if line.startswith("RESULT")) == [
        "RESULT Failed",
        "RESULT Skipped",
    ], [one.stderr for one in ended]
    assert (outbox / "scored.csv.parquet").read_bytes() == b"PAR1", (
        "nothing is overwritten, not even what is damaged"
    )
    results = [
        path for path in outbox.iterdir() if path.suffix == ".parquet" and path.name != "scored.csv.parquet"
    ]
    assert len(results) == 5
    assert [pq.read_metadata(path).num_rows for path in results] == [3] * 5
    assert [path.name for path in outbox.glob("*.error.json")] == ["bad.csv.error.json"]
    assert scored(toy, "inbox") == ["bad.csv"]
    assert score(return_state=True).name == "NothingNew"


@pytest.mark.slow
def test_archived_files_are_scored_again_by_the_model_in_production_on_request(
    served, toy, registry, promoted, put
):
    def versions() -> dict[str, list[str]]:
        results = {path.name: pq.read_table(path) for path in (toy.root / "data/scored").iterdir()}
        return {name: table["model_version"].unique().to_pylist() for name, table in sorted(results.items())}

    first = registry.in_stage("production").commit
    put("one.csv", tickets(300))
    put("two.csv", tickets(3))
    assert score(return_state=True).message.startswith("2 files, 303 rows, by v0.1.0; no drift")
    assert score(rescore=["*"], return_state=True).name == "NothingNew", "this model has scored them"

    sh("git", "commit", "--quiet", "--allow-empty", "--message=Another run", cwd=toy.root)
    registry.promote(toy.resolve("HEAD"), "production", "It is better.")
    put("two.csv", tickets(4))
    state = score(rescore=["two*"], return_state=True)
    assert state.message == "2 files (1 again), 7 rows, by v0.2.0; 4 rows are too few to detect drift"
    assert versions() == {
        "one.csv.parquet": ["v0.1.0"],
        "two.csv.2.parquet": ["v0.2.0"],
        "two.csv.3.parquet": ["v0.2.0"],
        "two.csv.parquet": ["v0.1.0"],
    }
    assert pq.read_metadata(toy.root / "data/scored/two.csv.2.parquet").num_rows == 4

    registry.promote(first, "production", "Rolled back.")
    state = score(rescore_days=1, return_state=True)
    assert state.message.startswith("2 files (2 again), 7 rows, by v0.1.0"), "what v0.1.0 has not scored last"
    assert scored(toy, "archive") == ["one.csv", "two.csv", "two.csv.2.csv"]
    assert score(rescore_days=1, return_state=True).name == "NothingNew"


@pytest.mark.slow
@pytest.mark.promise("killed-drift-event")
def test_kill_between_drift_event_and_its_record_repeats_the_event(served, tmp_path):
    """The other order loses the event for a day, and with it the training that it starts."""
    record, env = tmp_path / "drift.json", {**served.env, "PYTHONPATH": str(ROOT)}

    def sent() -> int:
        return sum(
            one["payload"].get("version") == "v9.9.9" for one in events(served, "tuneline.data.drifted")
        )

    for count, killed in ((1, True), (2, False)):
        step = "1" if killed else "2"  # writing the record is the only rename
        (ended,) = at_once([sys.executable, "-c", SENDS, str(record), step], cwd=tmp_path, env=env)
        assert ended.stdout == f"RESULT {killed}\n", ended.stderr
        assert record.exists() == (not killed)
        until(lambda count=count: sent() == count, 30, "the event")
