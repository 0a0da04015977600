"""Flow ``sweep`` on the real line, made small. Minutes, most of them imports."""

import json

import pytest
from prefect.client.orchestration import get_client
from ruamel.yaml import YAML

from flows.runs.repository import Repository
from flows.sweep import sweep
from tests.flows.prefect_server import flow_process, heartbeats, until
from tests.project import SMALL, Project

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]


@pytest.fixture
def project(tmp_path) -> Project:
    project = Project.copy_to(tmp_path)
    project.set_params({**SMALL, "train.epochs": None, "train.max_steps": 6})
    path = project.folder / "conf/sweep/two.yaml"
    path.parent.mkdir(exist_ok=True)
    parameters = {"train.learning_rate": {"choice": [1e-4, 1e-2]}}
    YAML(typ="safe").dump(
        {"parameters": parameters, "sampler": "grid", "halving": {"factor": 2, "first_steps": 2}}, path
    )
    project.commit("A sweep")
    return project


def test_flow_leaves_a_table_and_experiments_of_the_repository(served, project, monkeypatch):
    monkeypatch.setenv("TUNELINE_REPOSITORY", str(project.folder))
    state = sweep("conf/sweep/two.yaml", ref="main", return_state=True)
    assert state.is_completed(), state.message
    assert "Best of 2 on validation: two-" in state.message
    assert len(project.run("git", "for-each-ref", "refs/exps").stdout.splitlines()) == 1
    with get_client(sync_client=True) as client:
        artifact = client.request("GET", "/artifacts/sweep-two/latest").json()
    rows = json.loads(artifact["data"])
    assert [row["state"] for row in rows] == ["trained", "step 2 of 6"]


def test_killed_sweep_is_started_again_and_goes_on(served, project):
    template = served.client.read_deployment_by_name("train/train-on-demand")
    deployment = served.client.create_deployment(
        served.client.create_flow_from_name("sweep"),
        "by-hand",
        entrypoint=template.entrypoint.replace("train", "sweep"),
        pull_steps=template.pull_steps,
        work_pool_name=template.work_pool_name,
        work_queue_name=template.work_queue_name,
        job_variables=template.job_variables,
        enforce_parameter_schema=False,
    )
    served.start_worker()
    try:
        run = served.submit("sweep/by-hand", project.folder, file="conf/sweep/two.yaml", ref="main")
        served.wait(run, "Running")
        until(
            lambda: list(Repository(project.folder).state.glob("*/.dvc/tmp/sweeps/two/record.json")),
            400,
            "the first trial",
        )
        until(lambda: heartbeats(served, run), 60, "a heartbeat")
        flow_process(served.run(run)).kill()
        after = served.wait(run, "Completed", "Failed")
    finally:
        served.stop_workers()
        served.client.delete_deployment(deployment)
    assert (after.state.name, after.run_count) == ("Completed", 2), after.state.message
    assert "Best of 2 on validation: two-" in after.state.message
