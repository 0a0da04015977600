"""Nights in which the git host is away: flow ``train`` on the small pipeline, with a git daemon that is
stopped and started."""

import os
import signal
import subprocess
import sys

import pytest

from flows.promotion.registry import Registry
from flows.runs.repository import Repository
from tests.dvc_files import add_remote
from tests.faults.clones import clone
from tests.faults.networks import GitHost, git_host
from tests.flows.conftest import sh
from tests.flows.prefect_server import events, free_port
from tuneline.repository.git import lock_at

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def host(toy, tmp_path):
    """Serves ``origin.git``, which the repository pushes to; a DVC remote is in ``shelf``."""
    sh("git", "clone", "--quiet", "--bare", str(toy.root), "origin.git", cwd=tmp_path)
    add_remote(toy.root, tmp_path / "shelf", local=True)
    (toy.root / "conf" / "flows.yaml").write_text("git: {retry_delay_seconds: [0, 0.5]}\n")
    with git_host(tmp_path) as host:
        sh("git", "remote", "add", "origin", host.url("origin.git"), cwd=toy.root)
        yield host


def branches(folder) -> list[str]:
    return sh("git", "branch", "--list", "--format=%(refname:short)", cwd=folder).split()


@pytest.mark.promise("unreachable-origin")
def test_next_night_completes_what_could_not_be_pushed(run, served, toy, host: GitHost, tmp_path):
    registry, origin = Registry(toy, "onnx"), tmp_path / "origin.git"
    host.stop()
    nights = [run(push=True) for _ in range(2)]
    for night in nights:
        assert night.state.is_failed()
        assert "the next run completes what origin lacks" in night.state.message
        assert "Connection refused" in night.state.message
    (branch,) = [name for name in branches(toy.root) if name.startswith("runs/")]
    assert branch in night.state.message, "one branch for the same result"
    assert "Not decided" in sh("git", "log", "-1", "--format=%B", branch, cwd=toy.root)
    assert registry.tags().tags == ()

    host.start()
    strong = run(task="strong", push=True)
    assert strong.state.is_completed(), strong.state.message
    assert "completed: v0.1.0 in production" in strong.state.message
    assert "v0.2.0 in production" in strong.state.message
    completed = served.run(nights[0].id).state
    assert (completed.name, completed.message) == (
        "Completed",
        f"Completed by run {strong.name}: v0.1.0 in production",
    )
    first = registry.version("v0.1.0").commit
    assert toy.resolve(branch) == first
    assert "Promoted (nothing in production yet)" in sh(
        "git", "log", "-1", "--format=%B", branch, cwd=toy.root
    )
    assert set(branches(toy.root)) < set(branches(origin)), "the branches of both runs"
    model = lock_at(toy.root, first).out("models/onnx")
    assert (tmp_path / "shelf" / "files" / "md5" / model[:2] / model[2:]).exists()
    assert not list(toy.state.glob("*.unpushed"))

    host.stop()
    add_remote(toy.root, f"http://127.0.0.1:{free_port()}", local=True)
    before, here = branches(toy.root), set(toy.state.iterdir())
    quiet = run(task="strong", push=True)
    assert quiet.state.name == "NothingNew", "nothing is to be pushed, so nobody is missed"
    assert not {"push", "gate", "promote"} & set(served.tasks(quiet.id))
    assert (branches(toy.root), set(toy.state.iterdir())) == (before, here)


@pytest.mark.promise("unreachable-origin")
def test_night_that_was_killed_at_its_push_is_completed_by_the_next(run, served, toy, root, host: GitHost):
    hook, process = toy.root.parent / "origin.git" / "hooks" / "pre-receive", toy.root.parent / "process"
    hook.write_text(f"#!/bin/sh\nkill -9 $(cat {process})\nexit 1\n")
    hook.chmod(0o755)
    command = [sys.executable, "-c", "from flows.train import train; train(push=True)"]
    night = subprocess.Popen(
        command, cwd=root, env={**os.environ, **served.env, "TUNELINE_REPOSITORY": str(toy.root)}
    )
    process.write_text(str(night.pid))
    assert night.wait(120) == -signal.SIGKILL
    hook.unlink()
    assert Registry(toy, "onnx").tags().tags == ()
    assert "completed: v0.1.0 in production" in run(task="weak", push=True).state.message
    assert not list(toy.state.glob("*.unpushed"))


@pytest.mark.promise("two-promotions")
def test_earlier_candidate_is_judged_against_the_production_of_origin(
    run, served, toy, host: GitHost, tmp_path
):
    host.stop()
    away = run(push=True)
    assert away.state.is_failed()
    other = clone(tmp_path, "other")  # another machine, which reaches origin by another way
    theirs = other.promote()
    host.start()
    back = run(push=True)
    assert back.state.is_completed(), back.state.message
    (branch,) = [name for name in branches(tmp_path / "origin.git") if name.startswith("runs/")]
    assert f"Rejected ({theirs.name} in production): comparison with production" in sh(
        "git", "log", "-1", "--format=%B", branch, cwd=toy.root
    )
    assert Registry(toy, "onnx").in_stage("production") == theirs
    assert back.state.name == "NothingNew"
    assert (
        len(
            [
                one
                for one in events(served, "tuneline.model.rejected")
                if one["payload"]["commit"] == toy.resolve(branch)
            ]
        )
        <= 1
    )


def test_night_after_a_take_over_finds_nothing_new(run, served, toy):
    (toy.root / "conf" / "flows.yaml").write_text("promotion: {take_over: fast_forward}\n")
    sh("git", "add", "conf", cwd=toy.root)
    sh("git", "commit", "--quiet", "--message=Follow production", cwd=toy.root)
    assert "v0.1.0 in production" in run().state.message
    promoted = Registry(Repository(toy.root), "onnx").version("v0.1.0").commit
    assert toy.resolve("main") == toy.resolve("HEAD") == promoted
    assert sh("git", "status", "--porcelain", cwd=toy.root) == ""
    compared = run()
    assert "gate" not in served.tasks(compared.id), (
        "the data are compared with those of v0.1.0 now, which gives other metrics once"
    )
    assert {run().state.name for _ in range(2)} == {"NothingNew"}
    assert len([name for name in branches(toy.root) if name.startswith("runs/")]) == 2
