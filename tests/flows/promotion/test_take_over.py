"""The result of a promoted run comes to a branch, in whichever state that branch is."""

import pytest

from flows.promotion.__main__ import rollback
from flows.promotion.take_over import take_over
from tests.faults.clones import Machine, clone, git, origin
from tuneline.repository.registry import Version
from tuneline.settings import PromotionPolicy


@pytest.fixture
def one(tmp_path) -> Machine:
    origin(tmp_path)
    return clone(tmp_path, "one")


def run(machine: Machine, accuracy: float, *, parent: str = "main") -> Version:
    """Promote the result of a run, as the flow commits it."""
    git(machine.root, "switch", "--quiet", "--detach", parent)
    with (machine.root / "dvc.lock").open("a") as lock:
        lock.write(f"# accuracy {accuracy}\n")
    git(machine.root, "commit", "--quiet", "--all", f"--message=Run night: accuracy {accuracy}")
    commit = git(machine.root, "rev-parse", "HEAD")
    git(machine.root, "switch", "--quiet", "main")
    return machine.promote(commit)


def bring(machine: Machine, version: Version, how: str, *, push: bool = True, **more) -> str | None:
    return take_over(machine.registry, PromotionPolicy(take_over=how, **more), version, push=push)


def work(machine: Machine, name: str, content: str, branch: str = "main") -> str:
    """A person commits and pushes."""
    (machine.root / name).write_text(content)
    git(machine.root, "add", name)
    git(machine.root, "commit", "--quiet", f"--message={content}")
    git(machine.root, "push", "--quiet", "origin", f"HEAD:{branch}")
    return git(machine.root, "rev-parse", "HEAD")


def branch_of_origin(machine: Machine, branch: str) -> str:
    git(machine.root, "fetch", "--quiet", "origin")
    return git(machine.root, "rev-parse", f"origin/{branch}")


@pytest.mark.promise("moved-main")
def test_branch_that_moved_stays_and_the_message_says_what_to_merge(one):
    version = run(one, 0.8)
    assert bring(one, version, "fast_forward") == "main is at the commit of onnx v0.1.0."
    assert branch_of_origin(one, "main") == git(one.root, "rev-parse", "main") == version.commit
    code = work(one, "code", "something else in the meantime")
    later = run(one, 0.9, parent="main^")
    message = bring(one, later, "fast_forward")
    assert "main is not at the commit that the run began with" in message
    assert f"git merge {later.commit[:12]}" in message
    assert branch_of_origin(one, "main") == code

    git(one.root, "switch", "--quiet", "--create", "experiment")
    work(one, "conf", "other conditions of a promotion", "experiment")
    bring(one, run(one, 0.95, parent="experiment"), "fast_forward")
    assert branch_of_origin(one, "main") == code, (
        "a run of another branch brings its code along: that is reviewed"
    )


@pytest.mark.promise("moved-main")
def test_protected_branch_stays_and_the_message_says_what_to_merge(one):
    hook = one.root.parent / "origin.git" / "hooks" / "update"
    hook.write_text("#!/bin/sh\ncase $1 in refs/heads/main) echo main is protected >&2; exit 1;; esac\n")
    hook.chmod(0o755)
    before = branch_of_origin(one, "main")
    version = run(one, 0.8)
    message = bring(one, version, "fast_forward")
    assert "main is protected" in message
    assert f"git merge {version.commit[:12]}" in message
    assert branch_of_origin(one, "main") == before


def test_version_that_is_in_production_no_more_is_not_taken_over(one):
    run(one, 0.8)
    version = run(one, 0.9)
    rollback(one.registry, "production", None, "It was worse.")
    assert bring(one, version, "fast_forward") is None


def test_nothing_is_taken_over_unless_the_settings_say_so(one):
    before = branch_of_origin(one, "main")
    assert bring(one, run(one, 0.8), "none") is None
    assert branch_of_origin(one, "main") == before


def test_without_push_the_branch_of_the_clone_moves(one):
    before = branch_of_origin(one, "main")
    version = run(one, 0.8)
    bring(one, version, "fast_forward", push=False)
    assert git(one.root, "rev-parse", "main") == version.commit
    assert branch_of_origin(one, "main") == before
    assert "has the commit of onnx v0.1.0 already" in bring(one, version, "fast_forward", push=False)


def test_missing_branch_is_named(one):
    message = bring(one, run(one, 0.8), "fast_forward", branch="trunk")
    assert "couldn't find remote ref refs/heads/trunk" in message
