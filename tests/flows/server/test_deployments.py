"""The deployments of prefect.yaml, on a real server with a real worker: schedules, cancellation, crashes, two runs at once."""

from datetime import timedelta

import pytest
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.schedules import IntervalSchedule

from tests.flows.conftest import UNLIKE, sh, tickets
from tests.flows.prefect_server import kill_outright, processes_of, until

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

SLOW_TRAINING = ["train.pause=0.1", "train.steps=3000"]


@pytest.fixture(scope="module")
def worked(served):
    """The server, with a worker."""
    worker = served.start_worker()
    yield served
    assert worker.returncode in (None, -9), "the worker lived through all of it"


def training(served, toy, run) -> None:
    """Waits until a run is in the middle of its training."""
    served.wait(run, "Running")
    until(lambda: list(toy.state.glob("*/checkpoints/step.json")), 400, "a checkpoint")


def test_deployments_match_prefect_yaml(served):
    nightly = served.client.read_deployment_by_name("train/train-nightly")
    assert nightly.schedules[0].schedule.cron == "0 2 * * *"
    assert nightly.schedules[0].schedule.timezone == "Europe/Zurich"
    assert nightly.concurrency_options.collision_strategy == "CANCEL_NEW"
    on_demand = served.client.read_deployment_by_name("train/train-on-demand")
    assert on_demand.concurrency_options.collision_strategy == "ENQUEUE"
    others = [served.client.read_deployment_by_name(name) for name in ("score/score-hourly", "clean/clean-weekly")]
    for deployment in (nightly, on_demand, *others):
        assert deployment.global_concurrency_limit.limit == 1
        assert deployment.description
        assert "tuneline" in deployment.tags
        assert deployment.enforce_parameter_schema
    assert "Branch, tag or commit" in on_demand.parameter_openapi_schema["properties"]["ref"]["description"]


def test_deployment_validates_parameters(served, toy):
    with pytest.raises(Exception, match=r"ref|does not match"):
        served.submit("train/train-on-demand", toy.root, ref="--evil")


def test_scheduled_run_finishes(worked, toy):
    nightly = worked.client.read_deployment_by_name("train/train-nightly")
    env = {"env": {"TUNELINE_REPOSITORY": str(toy.root)}}
    worked.client.update_deployment(nightly.id, DeploymentUpdate(job_variables=env))
    (schedule,) = worked.client.create_deployment_schedules(nightly.id, [(IntervalSchedule(interval=timedelta(seconds=10)), True)])
    try:
        found = until(lambda: worked.runs_of(nightly.id, "Completed"), 400, "a scheduled run to finish")
        assert found[0].auto_scheduled
        assert found[0].created_by.type == "SCHEDULE"
    finally:
        worked.client.delete_deployment_schedule(nightly.id, schedule.id)
        until(lambda: not worked.runs_of(nightly.id, "Pending", "Submitting", "Running"), 60, "what it started to end")


def test_cancelled_training_leaves_no_process_and_a_checkpoint(worked, toy):
    run = worked.submit("train/train-on-demand", toy.root, overrides=SLOW_TRAINING, promote=False)
    training(worked, toy, run)
    assert processes_of(worked.run(run))
    worked.cancel(run)
    ended = worked.wait(run, seconds=45)
    assert ended.state.name == "Cancelled"
    assert processes_of(ended) == []
    took = ended.end_time - next(state.timestamp for state in worked.states(run) if state.name == "Cancelling")
    assert took < timedelta(seconds=30)
    assert any("checkpoint saved" in line for line in worked.said(run))

    again = worked.submit("train/train-on-demand", toy.root, overrides=SLOW_TRAINING, promote=False)
    until(lambda: any("resuming from step" in line for line in worked.said(again)), 400, "the next run to go on")
    assert any(f"Run {ended.name}" in line for line in worked.said(again))
    worked.cancel(again)
    worked.wait(again)


def test_run_of_a_killed_worker_resumes_from_its_checkpoint(worked, toy):
    run = worked.submit("train/train-on-demand", toy.root, overrides=["train.pause=0.05", "train.steps=600"], promote=False)
    training(worked, toy, run)
    before = worked.run(run)
    kill_outright(worked.workers[-1])
    until(lambda: not processes_of(before), 200, "the killed worker's run to end")
    worked.start_worker()
    after = worked.wait(run, "Completed")
    assert after.run_count == 2
    assert any("Resuming an earlier attempt of this run" in line for line in worked.said(run))
    assert any("resuming from step" in line for line in worked.said(run))
    assert not [path for path in toy.state.iterdir() if path.is_dir()]


def test_concurrent_runs_and_a_persons_dvc_repro_do_not_interfere(worked, toy):
    """Two runs of one deployment take turns; a run of another, and a person's own `dvc repro`, work beside them."""
    first = worked.submit("train/train-on-demand", toy.root, overrides=["train.pause=0.3", "train.steps=31"])
    second = worked.submit("train/train-on-demand", toy.root, overrides=["train.steps=32"])
    beside = worked.submit("train/train-nightly", toy.root, overrides=["train.steps=33"])
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


def test_drift_starts_a_training(worked, toy, promoted, put):
    """From a file in the inbox to a finished run of the pipeline that nobody started."""
    on_demand = worked.client.read_deployment_by_name("train/train-on-demand")
    env = {"env": {"TUNELINE_REPOSITORY": str(toy.root)}}
    worked.client.update_deployment(on_demand.id, DeploymentUpdate(job_variables=env))
    put("new.csv", tickets(300, greeting=UNLIKE))
    try:
        scored = worked.wait(worked.submit("score/score-hourly", toy.root))
        assert "drifted: length of texts" in scored.state.message

        def started() -> list:
            return [run for run in worked.runs_of(on_demand.id) if run.created_by and run.created_by.type == "AUTOMATION"]

        (run,) = until(started, 200, "the automation")
        assert worked.wait(run.id).state.is_completed()
        assert run.parameters["promote"] is True
    finally:
        worked.client.update_deployment(on_demand.id, DeploymentUpdate(job_variables={}))
