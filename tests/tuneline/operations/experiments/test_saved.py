"""Experiments as git has them."""

from tests.tuneline.saved_experiments import ExperimentRepository
from tuneline.core.repository.worktrees import run_git
from tuneline.operations.experiments.saved import committed_result, resolve_revision, saved_experiments


def test_name_stands_for_the_experiment_on_head(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
    made = ExperimentRepository(tmp_path)
    first = made.save("better", 0.7)
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-02T00:00:00Z")
    run_git(tmp_path, "commit", "--quiet", "--allow-empty", "--message=Later")
    assert resolve_revision(tmp_path, "better") == first.commit
    second = made.save("better", 0.8)
    assert resolve_revision(tmp_path, "better") == second.commit
    assert resolve_revision(tmp_path, "main") == run_git(tmp_path, "rev-parse", "main")
    assert resolve_revision(tmp_path, "unknown") is None
    assert saved_experiments(tmp_path) == [first, second]
    assert saved_experiments(tmp_path, second.base) == [second]


def test_result_of_a_commit_is_that_of_its_parameters(tmp_path):
    made = ExperimentRepository(tmp_path)
    assert committed_result(tmp_path, run_git(tmp_path, "rev-parse", "HEAD")) is None
    commit = made.save("base", 0.9).commit
    assert committed_result(tmp_path, commit).metrics["best_accuracy"] == 0.9
