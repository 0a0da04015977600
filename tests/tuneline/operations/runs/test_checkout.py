import os
import time

import pytest

from tests.flows.conftest import sh
from tuneline.core.repository.dvc import dvc_config
from tuneline.core.repository.git import GitError
from tuneline.core.runtime.files import BusyError
from tuneline.core.settings import Retention
from tuneline.operations.runs import checkout as checkouts
from tuneline.operations.runs.checkout import isolated
from tuneline.operations.runs.repository import Repository

KEPT = Retention().checkouts


def fail_in(toy: Repository, name: str, *, result: str | None = None) -> None:
    """Leaves behind what a run leaves that fails."""
    with pytest.raises(RuntimeError), isolated(toy, name, "main") as checkout:
        if result:
            (checkout.path / "result").write_text(result)
        raise RuntimeError
    os.utime(checkout.path, ns=(time.time_ns(),) * 2)


def test_checkout_is_isolated_from_the_working_tree(toy):
    (toy.root / "params.yaml").write_text("seed: 1\n")
    (toy.root / "new.txt").touch()
    with isolated(toy, "run", "main") as checkout:
        assert "seed: 42" in (checkout.path / "params.yaml").read_text()
        assert not (checkout.path / "new.txt").exists()
    assert sh("git", "status", "--porcelain", cwd=toy.root).split() == ["M", "params.yaml", "??", "new.txt"]


def test_checkout_is_removed_after_success(toy):
    with isolated(toy, "run", "main") as checkout:
        assert checkout.path.is_dir()
    assert not checkout.path.exists()
    assert sh("git", "worktree", "list", cwd=toy.root).count("\n") == 1
    assert [file.name for file in toy.state.iterdir()] == ["checkouts.lock"]


def test_checkout_is_kept_after_failure_and_resumed(toy):
    fail_in(toy, "run", result="10")
    with isolated(toy, "run", "main") as checkout:
        assert checkout.resumed
        assert (checkout.path / "result").read_text() == "10"


def test_resumed_attempt_keeps_the_commit_of_the_first(toy):
    fail_in(toy, "run")
    first = toy.resolve("main")
    sh("git", "commit", "--quiet", "--allow-empty", "--message=Later", cwd=toy.root)
    with isolated(toy, "run", "main") as checkout:
        assert checkout.commit == first != toy.resolve("main")


def test_pruning_keeps_the_latest_failures(toy):
    for number in range(KEPT + 3):
        fail_in(toy, f"run-{number}")
    left = {path.name for path in toy.state.iterdir() if path.is_dir()}
    assert left == {f"run-{number}" for number in range(2, KEPT + 3)}
    assert sh("git", "worktree", "list", cwd=toy.root).count("\n") == 1 + len(left)


def test_live_run_keeps_its_checkout(toy):
    with isolated(toy, "alive", "main") as alive:
        for number in range(KEPT + 2):
            fail_in(toy, f"run-{number}")
        assert alive.path.is_dir()


def test_same_run_in_two_processes_is_refused(toy, monkeypatch):
    monkeypatch.setattr(checkouts, "ATTEMPT_WAIT", 0.1)
    with isolated(toy, "run", "main"), pytest.raises(BusyError), isolated(toy, "run", "main"):
        pass


@pytest.mark.parametrize(
    "left",
    ["", "schema: '2.0'\nstages:\n  download:\n    cmd: 'pyth"],
)
def test_truncated_dvc_lock_is_not_resumed(toy, left):
    fail_in(toy, "run")
    (toy.state / "run" / "dvc.lock").write_text(left)
    with isolated(toy, "run", "main") as checkout:
        assert not (checkout.path / "dvc.lock").exists()


def test_ref_that_is_an_option_is_refused(toy):
    with pytest.raises(GitError), isolated(toy, "run", "--help"):
        pass


def test_remote_ref_is_fetched(toy, tmp_path):
    sh("git", "clone", "--quiet", str(toy.root), "clone", cwd=tmp_path)
    sh("git", "commit", "--quiet", "--allow-empty", "--message=Later", cwd=toy.root)
    clone = Repository(tmp_path / "clone")
    assert clone.resolve("origin/main") == toy.resolve("main") != clone.resolve("main")


def test_checkout_shares_the_cache_and_resolves_relative_remotes(toy):
    sh("dvc", "remote", "add", "--default", "shelf", "../shelf", cwd=toy.root)
    sh("dvc", "remote", "add", "--local", "mine", "../mine", cwd=toy.root)
    sh("git", "commit", "--quiet", "--all", "--message=A remote", cwd=toy.root)
    with isolated(toy, "run", "main") as checkout:
        config = dvc_config(checkout.path)
        assert config["cache"]["dir"] == str(toy.root / ".dvc" / "cache")
        assert config["remote"]["shelf"]["url"] == str(toy.root.parent / "shelf")
        assert config["remote"]["mine"]["url"] == str(toy.root.parent / "mine")
        assert sh("git", "status", "--porcelain", cwd=checkout.path) == ""
