"""Flow ``clean``: what nothing names goes, and what anything names stays."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prefect.logging import disable_run_logger

from flows.clean import clean_branches, clean_cache
from tests.flows.conftest import compose, sh
from tuneline.core.repository.dvc import cached_folder
from tuneline.core.repository.git import lock_at
from tuneline.core.repository.programs import Programs
from tuneline.core.settings import Settings
from tuneline.operations.runs.checkout import isolated
from tuneline.operations.runs.commits import Run, RunResult, commit_run
from tuneline.operations.runs.pipeline import Pipeline

DAY = 86400
MODEL = "models/onnx"


@pytest.fixture(autouse=True)
def unlogged():
    """There is no run, except in the last test."""
    with disable_run_logger():
        yield


@pytest.fixture
def result(toy) -> Callable[..., RunResult]:
    """Leaves the result of a run some days ago."""

    def result(name: str, days: float = 0, *overrides: str) -> RunResult:
        with (
            pytest.MonkeyPatch.context() as patch,
            isolated(toy, f"{name}-0a1b2c3d", "main") as checkout,
        ):
            patch.setenv("GIT_COMMITTER_DATE", f"{int(time.time() - days * DAY)} +0000")
            if overrides:
                pipeline = Pipeline(Programs(checkout.path, name), print)
                compose(checkout.path, *overrides)
                pipeline.dvc("repro", what="The small pipeline")
            (checkout.path / "result").write_text(name)
            return commit_run(toy, checkout, Run(id=name, name=name), "It ended.")

    return result


def branches(root: Path) -> set[str]:
    return set(sh("git", "branch", "--list", "runs/*", "--format=%(refname:short)", cwd=root).split())


def test_old_branches_of_runs_are_removed_here_and_in_origin(toy, registry, result, tmp_path):
    old, young, promoted = result("old", 100), result("young", 10), result("promoted", 100)
    registry.promote(promoted.commit, "It is better.")
    toy.git("branch", "runs/of-a-person", "main")
    sh("git", "clone", "--quiet", "--bare", str(toy.root), "origin.git", cwd=tmp_path)
    sh("git", "remote", "add", "origin", str(tmp_path / "origin.git"), cwd=toy.root)
    kept = {young.branch, promoted.branch, "runs/of-a-person"}

    assert old.branch in clean_branches(toy, Settings())
    assert branches(toy.root) == kept
    assert old.branch in branches(tmp_path / "origin.git"), "nothing is pushed unless results are"
    pushing = Settings.model_validate({"training": {"push": True}})
    clean_branches(toy, pushing)
    assert branches(tmp_path / "origin.git") == kept


@pytest.mark.timeout(300)
@pytest.mark.promise("killed-clean")
def test_cache_keeps_what_is_named_and_what_restores_a_stage(toy, registry, promoted, result):
    better = result("better", 0, "model.skill=0.95")
    registry.promote(better.commit, "It is better.")
    rejected = result("rejected", 0, "model.skill=0.3")
    toy.git("branch", "--delete", "--force", str(better.branch), str(rejected.branch))

    def is_cached(commit: str) -> bool:
        files = cached_folder(toy.root, lock_at(toy.root, commit), MODEL)
        return bool(files) and None not in files.values()

    assert is_cached(rejected.commit)
    clean_cache(toy, Settings())
    assert not is_cached(rejected.commit)
    assert is_cached(better.commit)
    assert is_cached("main")
    with isolated(toy, "again", "main") as checkout:
        again = Pipeline(Programs(checkout.path, "again"), print)
        compose(checkout.path, "model.skill=0.95")
        outcomes = {again.reproduce(stage) for stage in again.graph().stages}
    assert outcomes == {"restored"}, "no night trains again what a version has"
