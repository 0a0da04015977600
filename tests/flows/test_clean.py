"""Flow ``clean`` against a real Prefect server, beside a real training, and Prefect's own removal of old
runs."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey, FlowRunFilter, FlowRunFilterId
from prefect.states import Completed

from flows.clean import CLEANED, DAY, Cleaned, clean
from tests.conftest import ROOT
from tests.flows.clean.conftest import Past
from tests.flows.clean.test_cache import age_cache, is_cached
from tests.flows.conftest import sh
from tests.flows.prefect_server import prefect_server, until
from tuneline.core.written_records import write_record
from tuneline.repository.git import lock_at
from tuneline.runtime.locks import locked

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SETTINGS = (
    "retention: {branch_days: 30, cache_days: 14, checkouts: 1, cache_wait_minutes: 5}\nlock_wait_seconds:"
    " 20\n"
)


@pytest.fixture
def cleaned(served, toy):
    """Runs flow ``clean`` in this process and returns its state as the API has it."""
    (toy.root / "conf" / "flows.yaml").write_text(SETTINGS)
    return lambda **parameters: (
        served.run(clean(**parameters, return_state=True).state_details.flow_run_id).state
    )


@pytest.mark.promise("killed-clean")
def test_clean_beside_a_training_leaves_what_belongs_to_it(cleaned, served, toy, promoted, monkeypatch):
    monkeypatch.setattr("flows.clean.POLL", 1.0)
    Past(toy).run("old", 40)
    old, failed = toy.resolve("HEAD"), Past(toy).failure("failed", 40)
    age_cache(toy, 100)
    (toy.root / ".dvc" / "cache" / "files" / "md5" / "00").mkdir(exist_ok=True)
    garbage = Past(toy).age(
        _write(toy.root / ".dvc/cache/files/md5/00/112233445566778899aabbccddeeff", b"x" * 2_000_000), 100
    )
    before = sh("git", "branch", "--list", "runs/*", cwd=toy.root)

    dry = cleaned(dry_run=True)
    assert dry.name == "DryRun"
    assert dry.message.startswith("Would free 2.0 MB: 1 branches runs/*, 1 checkouts of failed runs, ")
    assert garbage.exists()
    assert failed.exists()
    assert sh("git", "branch", "--list", "runs/*", cwd=toy.root) == before
    table, *_ = served.client.read_artifacts(
        artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=["clean"]))
    )
    assert json.loads(table.data)[0]["what"] == "branches runs/*"
    assert table.description.startswith("Would free 2.0 MB")
    with locked(toy.state / "clean.lock", wait=0):
        assert cleaned().name == "Skipped"

    overrides = ["train.pause=0.1", "train.steps=300", "model.skill=0.9"]
    code = f"from flows.train import train; print(train(overrides={overrides}, return_state=True))"
    env = {**os.environ, **served.env, "TUNELINE_REPOSITORY": str(toy.root)}
    training = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    )
    until(lambda: [*toy.state.glob("*/checkpoints/step.json")], 200, "a training")
    assert "left: run" in cleaned(dry_run=True).message
    state = cleaned()
    assert training.wait(60) == 0, "the cleaning waited for it"
    assert "Completed" in training.stdout.read()
    assert state.name == "Completed", state.message
    assert state.message.startswith("Freed "), state.message
    assert not garbage.exists()
    (branch,) = sh("git", "branch", "--list", "runs/*", "--format=%(refname:short)", cwd=toy.root).split()
    assert is_cached(toy, lock_at(toy.root, branch))
    assert is_cached(toy, lock_at(toy.root, old))
    assert cleaned().message.startswith("Freed 0.0 MB: nothing")


def _write(path, content: bytes):
    path.write_bytes(content)
    return path


@pytest.mark.promise("wrong-clock")
def test_clock_that_is_months_ahead_removes_nothing_unless_a_person_says_that_it_is_right(cleaned, toy):
    Past(toy).run("old", 40)
    before = sh("git", "branch", "--list", "runs/*", cwd=toy.root)
    # as far back as it is for a clock that is ahead
    write_record(toy.state / CLEANED, Cleaned(time=time.time() - 100 * DAY))
    for dry_run in (False, True):
        state = cleaned(dry_run=dry_run)
        assert state.type.value == "FAILED"
        assert state.message.startswith("Nothing was removed.\nThe clock of this machine says ")
    assert sh("git", "branch", "--list", "runs/*", cwd=toy.root) == before

    assert "Would free" in cleaned(dry_run=True, clock_is_right=True).message
    assert cleaned().type.value == "FAILED", "a dry run is no cleaning"
    assert "1 branches runs/*" in cleaned(clock_is_right=True).message
    assert cleaned().name == "Completed"


def test_step_that_fails_stops_no_other(cleaned, toy, promoted):
    Past(toy).run("old", 40)
    (toy.root / "dvc.lock").write_text("<<<<<<< HEAD\n")
    state = cleaned()
    assert state.type.value == "FAILED"
    assert "1 branches runs/*" in state.message
    assert "objects of DVC's cache are not cleaned, the next run tries again" in state.message
    assert f"What {toy.root} uses is unknown" in state.message


def test_server_removes_old_runs_with_their_logs(tmp_path):
    with prefect_server(tmp_path / "home", PREFECT_SERVER_SERVICES_DB_VACUUM_LOOP_SECONDS="2") as served:
        runs = [served.client.create_flow_run(clean, state=Completed()).id for _ in range(2)]
        logs = [
            {
                "name": "x",
                "level": 20,
                "message": "x",
                "timestamp": datetime.now(UTC).isoformat(),
                "flow_run_id": str(run),
            }
            for run in runs
        ]
        served.client.request("POST", "/logs/", json=logs).raise_for_status()
        with sqlite3.connect(tmp_path / "home" / "prefect.db") as database:
            for run, days in zip(runs, (91, 89), strict=True):
                ended = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%d %H:%M:%S.%f")
                database.execute("UPDATE flow_run SET end_time = ? WHERE id = ?", (ended, str(run)))
        both = FlowRunFilter(id=FlowRunFilterId(any_=runs))
        until(lambda: len(served.client.read_flow_runs(flow_run_filter=both)) < 2, 60, "the old run to go")
        until(lambda: not served.said(runs[0]), 20, "its logs to go")
        assert [run.id for run in served.client.read_flow_runs(flow_run_filter=both)] == [runs[1]]
        assert served.said(runs[1]) == ["x"]
