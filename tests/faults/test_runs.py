"""Faults of the files and names of runs: a damaged record, a name that is no file name."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dvc_files import init_dvc
from tests.faults.clones import git
from tests.faults.kills import kills, some_of
from tuneline.operations.promotion.registry import Registry
from tuneline.operations.runs.checkout import isolated
from tuneline.operations.runs.commits import Run, commit_run, earlier_result
from tuneline.operations.runs.repository import Repository, safe_name


@pytest.fixture
def repository(tmp_path, homes) -> Repository:
    """A repository with an empty pipeline."""
    root = tmp_path / "repo"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "repo")
    init_dvc(root)
    git(root, "config", "user.name", "A")
    git(root, "config", "user.email", "a@localhost")
    git(root, "commit", "--quiet", "--message=Start")
    return Repository(root)


@some_of(3)
@pytest.mark.promise("killed-promotion")
def test_run_killed_around_its_promotion_is_promoted_once_by_its_next_attempt(repository, tmp_path, every):
    git(tmp_path, "clone", "--quiet", "--bare", "repo", "origin.git")
    git(repository.root, "remote", "add", "origin", str(tmp_path / "origin.git"))
    registry, run = Registry(repository), Run("1", "run")

    def attempt() -> None:
        with isolated(repository, f"run-{run.id}", "main") as checkout:
            (checkout.path / "result").write_text("A model")
            with registry.locked(wait=10):
                registry.fetch()
                earlier = earlier_result(repository, run.id)
                if earlier is None or registry.tags().version_of(earlier.commit) is None:
                    result = commit_run(repository, checkout, run, f"Decided by {os.getpid()}.")
                    registry.promote(result.commit, "It is better.", refs=result.refs, push=True)

    def is_step(event: str, arguments: tuple) -> bool:
        return event == "subprocess.Popen" and bool(
            {"commit", "branch", "push", "update-ref", "worktree"} & set(arguments[1])
        )

    for number, _ in enumerate(kills(attempt, is_step, every=every), start=1):
        attempt()
        versions = registry.tags().versions
        assert len(versions) == number
        assert registry.production() == versions[-1]
        for root in (repository.root, tmp_path / "origin.git"):
            branches = git(root, "branch", "--list", "runs/*", "--format=%(objectname)").split()
            assert sorted(branches) == sorted(version.commit for version in versions)
        run = Run(str(number + 1), "run")


@given(st.text())
@settings(max_examples=50)
def test_safe_name_is_a_branch_and_a_file_name(name):
    safe = safe_name(name)
    assert safe_name(safe) == safe
    assert len(safe.encode()) <= 100
    assert "/" not in safe
    assert git(Path(), "check-ref-format", "--branch", f"runs/2026-11-22-{safe}")
