"""Flow ``train`` against a real Prefect server, on the small pipeline. test_deployments.py runs it through a
worker."""

import json
import re
from collections.abc import Callable

import pytest
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.client.schemas.objects import StateType

from flows.promotion import rollback
from flows.train import train
from tests.dvc_files import add_remote
from tests.flows.conftest import sh
from tests.flows.prefect_server import events, until
from tuneline.core.repository.git import lock_at
from tuneline.operations.promotion.registry import Registry
from tuneline.operations.runs.repository import Repository

pytestmark = pytest.mark.timeout(600)


def branches(toy) -> list[str]:
    return sh("git", "branch", "--list", "runs/*", "--format=%(refname:short)", cwd=toy.root).split()


def test_run_ends_as_a_commit_that_dvc_can_compare(run, served, toy):
    flow_run = run()
    assert flow_run.state.is_completed(), flow_run.state.message
    tasks = served.tasks(flow_run.id)
    assert set(tasks) == {"data", "train", "prepare", "gate", "promote"}
    assert all(task.state.is_completed() for task in tasks.values())
    assert not [name for name in tasks if tasks[name].tags], (
        "each tag of a task costs a request, and seconds after a long stage"
    )

    (branch,) = branches(toy)
    assert branch.startswith("runs/20")
    assert branch.endswith(flow_run.name)
    changed = set(sh("git", "diff", "--name-only", "main", branch, cwd=toy.root).split())
    assert changed == {
        "dvc.lock",
        *(f"metrics/{stage}.json" for stage in ("tokenize", "validate", "train", "evaluate", "compare")),
    }
    compared = json.loads(sh("dvc", "metrics", "diff", "main", branch, "--json", cwd=toy.root))
    assert compared["metrics/evaluate.json"]["accuracy"]["new"] == pytest.approx(0.825)
    message = sh("git", "log", "-1", "--format=%B", branch, cwd=toy.root)
    assert message.startswith(f"Run {flow_run.name}: accuracy 0.825")
    assert "accuracy over the majority" in message
    assert f"Prefect-Run: {flow_run.id}" in message

    assert sh("git", "status", "--porcelain", cwd=toy.root) == "", "a person's working tree is left alone"
    assert not [path for path in toy.state.iterdir() if path.is_dir()], "the checkout is cleaned up"

    # Its first model beats the majority; what is in production can be fetched by its name.
    sh("dvc", "artifacts", "get", ".", "onnx", "--stage", "production", "--out", "fetched", cwd=toy.root)
    assert (toy.root / "fetched" / "model.onnx").exists()


def test_failing_stage_fails_the_run_with_its_error(run, served, toy):
    (toy.root / "conf" / "flows.yaml").write_text("stages: {data: {retries: 2, retry_delay_seconds: 0.5}}\n")
    flow_run = run(overrides=["validate.fails=true"])
    assert flow_run.state.is_failed()
    assert "3 rows hold a label that has no name" in flow_run.state.message
    tasks = served.tasks(flow_run.id)
    assert tasks["data"].state.is_failed()
    assert tasks["data"].run_count == 1, "bad data stays bad: no retry"
    assert "train" not in tasks, "the pipeline stops before training"
    assert branches(toy) == []
    (kept,) = [path for path in toy.state.iterdir() if path.is_dir()]
    assert json.loads((kept / "reports" / "checks" / "checks.json").read_text())["passed"] is False


def test_train_promotes_better_rejects_worse_and_rolls_back(run, served, toy):
    registry = Registry(toy)
    run()
    assert registry.production().name == "v0.1.0"
    strong = run(overrides=["task=strong", "compare.agreement=0.9999"])
    assert "v0.2.0 in production" in strong.state.message
    promoted = registry.production()
    params = sh("git", "show", f"{promoted.commit}:params.yaml", cwd=toy.root)
    assert "skill: 0.9" in params
    assert "agreement: 0.9999" in params
    weak = run(overrides=["task=weak"])
    assert weak.state.is_completed(), "a model that is not better is no failure"
    assert registry.production() == promoted

    # what the gate keeps: the first model used up nothing
    second, third = registry.decisions()
    assert (second.outcome, second.production) == ("promoted", "v0.1.0")
    assert second.commit == promoted.commit
    assert (third.outcome, third.production) == ("rejected", "v0.2.0")
    assert second.level > 100 * third.level > 0, "validation favoured the second, and not the third"

    (artifact,) = served.client.read_latest_artifacts(
        artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=["promotion"]))
    )
    assert artifact.data.startswith("# Not promoted")
    assert "accuracy over production" in artifact.data
    told = until(lambda: events(served, "tuneline.model.rejected", weak.id), 30, "the event")
    assert told[0]["payload"]["before"] == "v0.2.0"
    assert told[0]["payload"]["difference"] < 0
    assert until(lambda: events(served, "tuneline.model.promoted", strong.id), 30, "the event")
    assert len(branches(toy)) == 3, "a rejected run is kept to be compared"

    rollback(registry, None, "The test says so.")
    assert registry.production().name == "v0.1.0"


def test_result_of_a_run_without_promotion_is_judged_by_the_next_with_one(run, toy):
    assert [run(promote=False).state.name for _ in range(2)] == ["Completed", "NothingNew"]
    assert "v0.1.0 in production" in run().state.message


@pytest.mark.slow
def test_hold_withholds_a_promotion_until_it_is_released(run, toy):
    registry = Registry(toy)
    registry.hold("We look into it.", push=False)
    held = run()
    assert registry.production() is None
    assert re.search(
        r"promotions of onnx to production are on hold since 20.* UTC: We look into it\.", held.state.message
    )
    (branch,) = branches(toy)
    message = sh("git", "log", "-1", "--format=%B", branch, cwd=toy.root)
    assert (
        "Withheld (nothing in production yet): every other criterion is met, but promotions of onnx to"
        " production are on hold" in message
    )
    assert run().state.name == "NothingNew", "decided once, as long as the hold is the same"
    registry.release("It was nothing.", push=False)
    released = run().state.message
    assert "v0.1.0 in production" in released
    assert "on hold" not in released


@pytest.mark.slow
def test_hold_before_the_first_promotion_takes_no_model_for_a_promoted_one(run, toy, make):
    make()
    registry = Registry(toy)
    registry.hold("We look into it.", push=False)
    registry.release("It was nothing.", push=False)
    assert "v0.1.0 in production" in run().state.message


@pytest.mark.slow  # eight runs
def test_other_policy_and_other_production_are_news(run, served, toy):
    run()
    weak = {"overrides": ["task=weak"]}
    assert [run(**weak).state.name for _ in range(2)] == ["Completed", "NothingNew"]
    (toy.root / "conf/flows.yaml").write_text("promotion: {min_rows: 200}\n")
    assert [run(**weak).state.name for _ in range(2)] == ["Completed", "NothingNew"]
    assert "v0.2.0 in production" in run(overrides=["task=strong"]).state.message
    assert "gate" in served.tasks(run(**weak).id)
    assert run(**weak).state.name == "NothingNew"


def test_settings_say_what_is_run_and_pushed_unless_the_run_does(run, toy):
    (toy.root / "conf/flows.yaml").write_text("training: {ref: not-there, push: true}\n")
    assert "DVC has no default remote" in run().state.message
    assert "not-there" in run(push=False).state.message
    assert "nor-there" in run(push=False, ref="nor-there").state.message


@pytest.mark.slow
def test_pushed_run_can_be_fetched_elsewhere(run, toy, tmp_path):
    """Another machine, with nothing but the git remote and the DVC remote, gets the model in production."""
    sh("git", "clone", "--quiet", "--bare", str(toy.root), "origin.git", cwd=tmp_path)
    sh("git", "remote", "add", "origin", str(tmp_path / "origin.git"), cwd=toy.root)
    add_remote(toy.root, tmp_path / "shelf")
    sh("git", "commit", "--quiet", "--all", "--message=A remote", cwd=toy.root)
    sh("git", "push", "--quiet", "origin", "main", cwd=toy.root)
    flow_run = run(ref="origin/main", push=True)
    assert flow_run.state.is_completed(), flow_run.state.message
    sh("git", "clone", "--quiet", str(tmp_path / "origin.git"), "elsewhere", cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    sh("dvc", "artifacts", "get", ".", "onnx", "--stage", "production", "--out", "fetched", cwd=elsewhere)
    assert (elsewhere / "fetched" / "model.onnx").exists()
    (branch,) = sh(
        "git", "branch", "--remotes", "--list", "origin/runs/*", "--format=%(refname:short)", cwd=elsewhere
    ).split()
    sh("git", "checkout", "--quiet", branch, cwd=elsewhere)
    sh("dvc", "pull", "--quiet", cwd=elsewhere)
    assert sh("dvc", "status", cwd=elsewhere).strip() == "Data and pipelines are up to date.", (
        "all of the run is there"
    )


@pytest.fixture
def stored(toy, tmp_path) -> Callable[[str, str], bool]:
    """Tells whether the DVC remote of the repository, ``shelf``, has an out of a commit; there is an origin
    as well."""
    sh("git", "clone", "--quiet", "--bare", str(toy.root), "origin.git", cwd=tmp_path)
    sh("git", "remote", "add", "origin", str(tmp_path / "origin.git"), cwd=toy.root)
    add_remote(toy.root, tmp_path / "shelf", local=True)

    def stored(commit: str, path: str) -> bool:
        md5 = lock_at(toy.root, commit).out(path)
        return (tmp_path / "shelf" / "files" / "md5" / md5[:2] / md5[2:]).exists()

    return stored


@pytest.mark.slow
def test_rejected_result_keeps_all_but_its_weights_which_its_commit_makes_again(run, toy, stored, tmp_path):
    assert "v0.1.0 in production" in run(push=True).state.message
    assert stored("onnx@v0.1.0", "models/onnx")
    rejected = run(overrides=["task=weak"], push=True)
    (branch,) = [name for name in branches(toy) if name.endswith(rejected.name)]
    assert [
        path
        for path in ("data/raw", "reports/predictions.parquet", "models/onnx")
        if not stored(branch, path)
    ] == ["models/onnx"]
    sh("git", "clone", "--quiet", "--branch", branch, "origin.git", "elsewhere", cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    add_remote(elsewhere, tmp_path / "shelf", local=True)
    sh("dvc", "pull", "--quiet", "--allow-missing", cwd=elsewhere)
    assert not list(elsewhere.glob("models/*/*"))
    sh("dvc", "repro", "--quiet", cwd=elsewhere)
    assert (elsewhere / "models" / "onnx" / "model.onnx").exists()
    assert sh("git", "status", "--porcelain", cwd=elsewhere) == "", (
        "dvc.lock has the hashes of the same bytes"
    )


@pytest.mark.slow  # three runs; tests/tuneline/core/repository/test_dvc.py has what is refused
def test_remote_that_is_gone_is_refused(run, served, toy, stored, tmp_path):
    assert "v0.1.0 in production" in run(push=True).state.message
    shelf = tmp_path / "shelf"
    shelf.rename(tmp_path / "unmounted")
    refused = run(push=True)
    assert f"{shelf}, the folder of the DVC remote, does not exist" in refused.state.message
    assert (refused.state.type, served.tasks(refused.id)) == (StateType.FAILED, {})
    assert not shelf.exists(), "DVC would create it on another disk"
    (tmp_path / "unmounted").rename(shelf)
    assert run(push=True).state.is_completed()
    assert stored("onnx@v0.1.0", "models/onnx")


@pytest.mark.slow
def test_failed_push_promotes_nothing_and_loses_no_result(run, toy, tmp_path):
    """Also under a name that is neither a file nor a branch."""
    sh("git", "clone", "--quiet", "--bare", str(toy.root), "origin.git", cwd=tmp_path)
    sh("git", "remote", "add", "origin", str(tmp_path / "origin.git"), cwd=toy.root)
    add_remote(toy.root, tmp_path / "shelf", local=True)
    hook = tmp_path / "origin.git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho no room for it >&2\nexit 1\n")
    hook.chmod(0o755)
    registry = Registry(toy)
    failed = train.with_options(flow_run_name="a/b: c~1")(push=True, return_state=True)
    assert failed.is_failed()
    assert "no room for it" in failed.message
    assert registry.tags().tags == ()
    (branch,) = branches(toy)
    assert branch.endswith("-a-b-c-1")
    hook.unlink()
    assert "v0.1.0 in production" in run(push=True).state.message, "it is judged again"
    sh("git", "clone", "--quiet", "origin.git", "elsewhere", cwd=tmp_path)
    assert Registry(Repository(tmp_path / "elsewhere")).tags() == registry.tags()
    model = lock_at(toy.root, "onnx@v0.1.0").out("models/onnx")
    assert (tmp_path / "shelf" / "files" / "md5" / model[:2] / model[2:]).exists(), "with its data"


@pytest.mark.parametrize("parameters", [{"ref": "--upload-pack=evil"}])
def test_invalid_flow_parameters_are_refused(run, parameters):
    flow_run = run(**parameters)
    assert flow_run.state.is_failed()
    assert "Validation of flow parameters failed" in flow_run.state.message
