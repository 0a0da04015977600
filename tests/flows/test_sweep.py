"""Flow ``sweep`` on the real line, made small. Minutes, most of them imports."""

import json

import pytest
from prefect.client.orchestration import get_client
from ruamel.yaml import YAML

from flows.sweep import sweep
from tests.project import SMALL, Project

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]


def test_flow_leaves_a_table_and_experiments_of_the_repository(served, tmp_path, monkeypatch):
    project = Project.copy_to(tmp_path)
    project.set_params({**SMALL, "train.epochs": None, "train.max_steps": 6})
    path = project.folder / "conf/sweep/two.yaml"
    path.parent.mkdir(exist_ok=True)
    parameters = {"train.learning_rate": {"choice": [1e-4, 1e-2]}}
    YAML(typ="safe").dump({"parameters": parameters, "sampler": "grid", "halving": {"factor": 2, "first_steps": 2}}, path)
    project.commit("A sweep")
    monkeypatch.setenv("TUNELINE_REPOSITORY", str(project.folder))
    state = sweep("conf/sweep/two.yaml", ref="main", return_state=True)
    assert state.is_completed(), state.message
    assert "Best of 2 on validation: two-" in state.message
    assert len(project.run("git", "for-each-ref", "refs/exps").stdout.splitlines()) == 1
    with get_client(sync_client=True) as client:
        artifact = client.request("GET", "/artifacts/sweep-two/latest").json()
    rows = json.loads(artifact["data"])
    assert [row["state"] for row in rows] == ["trained", "step 2 of 6"]
