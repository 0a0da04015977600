import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import psutil
import pytest

from flows.runs import checkout as checkouts
from flows.runs.checkout import isolated
from flows.runs.repository import Repository
from tests.flows.conftest import sh
from tuneline.repository.dvc import dvc_config
from tuneline.repository.worktrees import GitError
from tuneline.runtime.errors import ParamsError
from tuneline.runtime.locks import BusyError
from tuneline.settings import Retention

KEPT = Retention().checkouts


def fail_in(toy: Repository, name: str, *, result: str | None = None) -> None:
    """Leaves behind what a run leaves that fails."""
    with pytest.raises(RuntimeError), isolated(toy, name, "main") as checkout:
        if result:
            (checkout.path / "result").write_text(result)
        raise RuntimeError
    os.utime(checkout.path, ns=(time.time_ns(),) * 2)


def is_alive(pid: int) -> bool:
    """A zombie is not: an orphan's may stay where nobody reaps (a container without an init)."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


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
        assert checkout.spec.commit == first != toy.resolve("main")


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


def test_processes_of_a_killed_run_are_killed(toy, root):
    """The supervisor of its program is killed with it: only the mark on its processes is left to find them
    by."""
    flow = f"""
        import os, psutil, signal, sys
        sys.path.insert(0, {str(root)!r})
        from pathlib import Path
        from flows.runs.checkout import isolated
        from flows.runs.processes import Programs
        from flows.runs.repository import Repository
        def kill(line):
            print(line, flush=True)
            psutil.Process().children()[0].kill()
            os.kill(os.getpid(), signal.SIGKILL)
        with isolated(Repository(Path({str(toy.root)!r})), "killed", "main") as checkout:
            programs = Programs(checkout.path, "killed", locks=[checkout.lock])
            programs.run(["sh", "-c", "setsid sleep 600 & echo $!; sleep 600"], "It", kill)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(flow)], stdout=subprocess.PIPE, text=True
    )
    orphan = int(process.stdout.readline())
    assert process.wait() == -signal.SIGKILL
    assert is_alive(orphan)
    with isolated(toy, "next", "main"):
        pass
    assert not is_alive(orphan)
    process.stdout.close()


def test_incomplete_checkout_is_created_again(toy):
    fail_in(toy, "run")
    (toy.state / "run.json").unlink()
    (toy.state / "run" / "params.yaml").unlink()
    with isolated(toy, "run", "main") as checkout:
        assert not checkout.resumed
        assert (checkout.path / "params.yaml").exists()


@pytest.mark.parametrize(
    "left",
    ["", "sche", "schema: '2.0'\nstages:\n  download", "schema: '2.0'\nstages:\n  download:\n    cmd: 'pyth"],
)
def test_truncated_dvc_lock_is_not_resumed(toy, left):
    fail_in(toy, "run")
    (toy.state / "run" / "dvc.lock").write_text(left)
    with isolated(toy, "run", "main") as checkout:
        assert not (checkout.path / "dvc.lock").exists()


def commit_file(toy: Repository, name: str, text: str, message: str) -> str:
    """Commit a file, and return the commit."""
    (toy.root / name).write_text(text)
    sh("git", "add", "--force", name, cwd=toy.root)
    sh("git", "commit", "--quiet", f"--message={message}", cwd=toy.root)
    return toy.resolve("HEAD")


CONFLICT = "<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> other\n"


@pytest.mark.parametrize(
    "name",
    ["params.yaml", "dvc.yaml", "dvc.lock", "conf/config.yaml", "conf/task/strong.yaml", "data/batch.dvc"],
)
@pytest.mark.parametrize(
    ("text", "problem"),
    [(CONFLICT, "line 2: a merge left a conflict."), ("b: [1,\n", "line 3: invalid YAML: ")],
)
@pytest.mark.promise("broken-commit")
def test_commit_with_invalid_yaml_is_refused_with_its_file_and_line(toy, name, text, problem):
    bad = commit_file(toy, name, f"first: 1\n{text}", "A merge")
    tip = commit_file(toy, "README.md", "Hello", "Another")
    with pytest.raises(ParamsError) as error, isolated(toy, "run", "main"):
        pass
    message = str(error.value)
    assert message.startswith(f"Commit {tip[:12]} of main cannot be run:\n  {name}, {problem}")
    assert f" Last changed by {bad[:7]} 'A merge' by Test.\n" in message
    assert message.endswith("Correct that in a new commit of main; the next run takes it.")
    assert not (toy.state / "run").exists()


def test_every_file_with_a_conflict_is_named_once(toy):
    (toy.root / "conf" / "params.yaml").symlink_to("../params.yaml")
    sh("git", "add", "conf/params.yaml", cwd=toy.root)
    commit_file(toy, "params.yaml", CONFLICT, "A merge")
    commit_file(toy, "dvc.lock", CONFLICT, "Another")
    with pytest.raises(ParamsError) as error, isolated(toy, "run", "main"):
        pass
    assert str(error.value).count("line 1: a merge left a conflict.") == 2


def test_file_of_several_documents_that_no_run_reads_is_not_refused(toy):
    commit_file(toy, "conf/cluster.yaml", "kind: Job\n---\nkind: Service\n", "For Kubernetes")
    with isolated(toy, "run", "main") as checkout:
        assert (checkout.path / "conf" / "cluster.yaml").exists()


def test_unknown_ref_error_names_the_ref(toy):
    with (
        pytest.raises(GitError, match="'no-such-branch'"),
        isolated(toy, "run", "no-such-branch"),
    ):
        pass
    assert not (toy.state / "run").exists()


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


def test_deleted_checkout_does_not_stop_the_next_run(toy):
    fail_in(toy, "run")
    shutil.rmtree(toy.state / "run")
    with isolated(toy, "next", "main"), pytest.raises(RuntimeError), isolated(toy, "run", "main"):
        raise RuntimeError
