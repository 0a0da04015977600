"""The deployments of prefect.yaml, on a real server with a real worker: schedules, cancellation, crashes, two
runs at once."""

from datetime import timedelta

import pytest
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.objects import FlowRun
from prefect.events import emit_event

from tests.flows.conftest import ref_with, sh
from tests.flows.prefect_server import flow_process, heartbeats, kill_outright, processes_of, until

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

SLOW_TRAINING = ["train.pause=0.1", "train.steps=3000"]


@pytest.fixture(scope="module")
def worked(served):
    """The server, with a worker. Other tests have none: their events start runs that nobody is to work on."""
    worker = served.start_worker()
    yield served
    assert worker.poll() in (None, -9), "the worker lived through all of it"
    served.stop_workers()


def training(served, toy, run) -> None:
    """Waits until a run is in the middle of its training."""
    served.wait(run, "Running")
    until(lambda: list(toy.state.glob("*/checkpoints/step.json")), 400, "a checkpoint")


def test_cancelled_training_leaves_no_process_and_a_checkpoint(worked, toy):
    run = worked.submit(
        "train/train-on-demand", toy.root, ref=ref_with(toy.root, *SLOW_TRAINING), promote=False
    )
    training(worked, toy, run)
    assert processes_of(worked.run(run))
    worked.cancel(run)
    ended = worked.wait(run, seconds=45)
    assert ended.state.name == "Cancelled"
    assert processes_of(ended) == []
    took = ended.end_time - next(
        state.timestamp for state in worked.states(run) if state.name == "Cancelling"
    )
    assert took < timedelta(seconds=30)
    worked.wait_for_line(run, "checkpoint saved")

    again = worked.submit(
        "train/train-on-demand", toy.root, ref=ref_with(toy.root, *SLOW_TRAINING), promote=False
    )
    worked.wait_for_line(again, "resuming from step", 400)
    worked.cancel(again)
    worked.wait(again)

    wrong = worked.submit("train/train-on-demand", toy.root, ref="nosuch")
    assert worked.wait(wrong).state.name == "Failed"


@pytest.mark.promise("killed-worker")
def test_run_of_a_killed_worker_resumes_from_its_checkpoint(worked, toy):
    run = worked.submit(
        "train/train-on-demand",
        toy.root,
        ref=ref_with(toy.root, "train.pause=0.05", "train.steps=600"),
        promote=False,
    )
    training(worked, toy, run)
    before = worked.run(run)
    kill_outright(worked.workers[-1])
    until(lambda: not processes_of(before), 200, "the killed worker's run to end")
    worked.start_worker()
    after = worked.wait(run, "Completed")
    assert after.run_count == 2
    worked.wait_for_line(run, "Resuming an earlier attempt of this run")
    worked.wait_for_line(run, "resuming from step")
    assert not [path for path in toy.state.iterdir() if path.is_dir()]


@pytest.mark.promise("killed-stage")
def test_killed_stage_is_tried_again_and_a_killed_flow_is_one_attempt(worked, toy):
    run = worked.submit(
        "train/train-on-demand",
        toy.root,
        ref=ref_with(toy.root, "train.pause=0.05", "train.steps=900"),
        promote=False,
    )
    training(worked, toy, run)
    started = [
        (process, process.cmdline()) for process in flow_process(worked.run(run)).children(recursive=True)
    ]
    (stage,) = [
        process for process, words in started if words[-1:] == ["train"] and "dvc" not in words
    ]  # not its supervisor, nor DVC
    stage.kill()
    worked.wait_for_line(run, "resuming from step", 100)
    worked.wait_for_line(run, "exited with 137")
    until(lambda: heartbeats(worked, run), 60, "a heartbeat")

    flow_process(worked.run(run)).kill()
    after = worked.wait(run, "Completed")
    names = [state.name for state in worked.states(run)]
    assert names.count("AwaitingRetry") == 1, names
    assert after.run_count == 2
    worked.wait_for_line(run, "Resuming an earlier attempt of this run")


def test_concurrent_runs_and_a_persons_dvc_repro_do_not_interfere(worked, toy):
    """Two runs of one deployment take turns; a run of another, and a person's own `dvc repro`, work beside
    them."""
    first = worked.submit(
        "train/train-on-demand", toy.root, ref=ref_with(toy.root, "train.pause=0.3", "train.steps=31")
    )
    second = worked.submit("train/train-on-demand", toy.root, ref=ref_with(toy.root, "train.steps=32"))
    beside = worked.submit("train/train-nightly", toy.root, ref=ref_with(toy.root, "train.steps=33"))
    sh("sed", "-i", "s/steps: 5/steps: 34/", "params.yaml", cwd=toy.root)
    sh("dvc", "repro", cwd=toy.root)
    runs = [worked.wait(run) for run in (first, second, beside)]
    assert [run.state.type.value for run in runs] == ["COMPLETED"] * 3
    one, two = sorted(runs[:2], key=lambda run: run.start_time)
    assert one.end_time <= two.start_time, "one at a time"
    assert sh("dvc", "status", cwd=toy.root).strip() == "Data and pipelines are up to date."
    assert "34" in (toy.root / "metrics" / "train.json").read_text()
    branches = sh("git", "branch", "--list", "runs/*", "--format=%(refname:short)", cwd=toy.root).split()
    steps = [sh("git", "show", f"{branch}:metrics/train.json", cwd=toy.root) for branch in branches]
    assert sorted(steps) == [f'{{"steps": {number}}}\n' for number in (31, 32, 33)]


def test_new_rows_start_a_training(worked, toy):
    """A run that nobody started, where an event says that rows were committed."""
    deployment = worked.client.read_deployment_by_name("train/train-on-demand")
    env = {"env": {"TUNELINE_REPOSITORY": str(toy.root)}}
    worked.client.update_deployment(deployment.id, DeploymentUpdate(job_variables=env))
    before = {run.id for run in worked.runs_of(deployment.id)}  # by events of other tests

    def started() -> list[FlowRun]:
        new = [run for run in worked.runs_of(deployment.id) if run.id not in before]
        return [run for run in new if run.created_by and run.created_by.type == "AUTOMATION"]

    try:
        emit_event(
            "tuneline.data.ingested",
            resource={"prefect.resource.id": "tuneline.data.source"},
            payload={"rows": 1, "commit": "c0"},
        )
        (run,) = until(started, 200, "the automation")
        ended = worked.wait(run.id)
        assert ended.state.is_completed()
        assert ended.parameters["promote"] is True
    finally:
        worked.client.update_deployment(deployment.id, DeploymentUpdate(job_variables={}))
