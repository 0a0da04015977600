"""The result of a promoted run comes to a branch, in whichever state that branch is."""

import json

import pytest

from flows.promotion.__main__ import rollback
from flows.promotion.take_over import BRANCH, take_over
from tests.faults.clones import Machine, clone, git, origin
from tuneline.repository.registry import Version
from tuneline.settings import PromotionPolicy

DECISION = (
    "Promoted (v0.1.0 in production): every criterion is met.\n\n- + rows: 200 (required: >= 100)\n- + p|q: 1"
    " (required: < 2)"
)


@pytest.fixture
def one(tmp_path) -> Machine:
    origin(tmp_path)
    return clone(tmp_path, "one")


def run(machine: Machine, accuracy: float, *, parent: str = "main", params: str | None = None) -> Version:
    """Promote the result of a run, as the flow commits it."""
    git(machine.root, "switch", "--quiet", "--detach", parent)
    (machine.root / "metrics").mkdir(exist_ok=True)
    (machine.root / "metrics" / "evaluate.json").write_text(json.dumps({"accuracy": accuracy, "loss": 0.5}))
    with (machine.root / "dvc.lock").open("a") as lock:
        lock.write(f"# accuracy {accuracy}\n")
    if params:
        (machine.root / "params.yaml").write_text(params)
    git(machine.root, "add", "--all", "--", "metrics", "dvc.lock", *(["params.yaml"] if params else []))
    text = (
        f"Run night: accuracy {accuracy}\n\nThe pipeline of abc (main), with"
        f" task=strong.\n\n{DECISION}\n\nPrefect-Run: 1"
    )
    git(machine.root, "commit", "--quiet", f"--message={text}")
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


def test_pull_request_has_one_commit_with_the_tables_on_top_of_the_branch(one):
    bring(one, run(one, 0.8), "fast_forward")
    code = work(one, "code", "something else in the meantime")
    version = run(one, 0.9, parent="main^", params="skill: 1\n")
    assert "tuneline/promotion has the result of onnx v0.2.0, for main." in bring(
        one, version, "pull_request"
    )
    commit = branch_of_origin(one, BRANCH)
    assert git(one.root, "rev-parse", f"{commit}^") == code
    changed = git(one.root, "diff", "--name-only", f"{commit}^", commit).split()
    assert changed == ["dvc.lock", "metrics/evaluate.json", "params.yaml"]
    text = git(one.root, "log", "-1", "--format=%B", commit)
    assert text.startswith("Promote onnx v0.2.0: accuracy 0.9\n")
    assert "The pipeline of abc (main), with task=strong." in text
    assert "`params.yaml` is that of the run" in text
    assert "| accuracy | 0.8 | 0.9 | +0.1 |" in text
    assert "| ✅ | rows | 200 | >= 100 |" in text
    assert "| p\\|q | 1 |" in text
    assert branch_of_origin(one, "main") == code, "the branch itself is left alone"

    later = run(one, 0.95)
    bring(one, later, "pull_request")
    updated = branch_of_origin(one, BRANCH)
    assert git(one.root, "rev-list", "--count", f"main..{updated}") == "1", "one branch, one commit: updated"
    git(one.root, "merge", "--quiet", "--ff-only", updated)
    git(one.root, "push", "--quiet", "origin", "main")
    assert bring(one, run(one, 0.97), "pull_request")
    assert branch_of_origin(one, BRANCH) != updated


@pytest.mark.promise("moved-main")
def test_fast_forward_falls_back_to_a_pull_request(one):
    version = run(one, 0.8)
    assert bring(one, version, "fast_forward") == "main is at the commit of onnx v0.1.0."
    assert branch_of_origin(one, "main") == git(one.root, "rev-parse", "main") == version.commit
    code = work(one, "code", "something else in the meantime")
    message = bring(one, run(one, 0.9, parent="main^"), "fast_forward")
    assert "main is not at the commit that the run began with" in message
    assert BRANCH in message
    assert branch_of_origin(one, "main") == code
    assert branch_of_origin(one, BRANCH) != code

    git(one.root, "switch", "--quiet", "--create", "experiment")
    work(one, "conf", "other conditions of a promotion", "experiment")
    bring(one, run(one, 0.95, parent="experiment"), "fast_forward")
    assert branch_of_origin(one, "main") == code, (
        "a run of another branch brings its code along: that is reviewed"
    )


def test_protected_branch_falls_back_to_a_pull_request(one):
    hook = one.root.parent / "origin.git" / "hooks" / "update"
    hook.write_text("#!/bin/sh\ncase $1 in refs/heads/main) echo main is protected >&2; exit 1;; esac\n")
    hook.chmod(0o755)
    assert "main is protected" in bring(one, run(one, 0.8), "fast_forward")
    assert branch_of_origin(one, BRANCH)


def test_conflict_is_left_to_a_person(one):
    bring(one, run(one, 0.8), "fast_forward")
    work(one, "dvc.lock", "by hand")
    version = run(one, 0.9, parent="main^")
    assert "It conflicts with main" in bring(one, version, "pull_request")
    commit = branch_of_origin(one, BRANCH)
    assert git(one.root, "rev-parse", f"{commit}^{{tree}}") == git(
        one.root, "rev-parse", f"{version.commit}^{{tree}}"
    )
    assert "Do not merge `dvc.lock` by hand" in git(one.root, "log", "-1", "--format=%B", commit)


def test_commits_of_a_person_on_the_branch_are_not_overwritten(one):
    bring(one, run(one, 0.8), "pull_request")
    git(one.root, "switch", "--quiet", "--detach", branch_of_origin(one, BRANCH))
    theirs = work(one, "code", "a review", BRANCH)
    git(one.root, "switch", "--quiet", "main")
    version = run(one, 0.9)
    message = bring(one, version, "pull_request")
    assert "has a commit by one, which is not overwritten" in message
    assert f"git merge {version.commit[:12]}" in message
    assert branch_of_origin(one, BRANCH) == theirs


def test_version_that_is_in_production_no_more_is_not_taken_over(one):
    run(one, 0.8)
    version = run(one, 0.9)
    rollback(one.registry, "production", None, "It was worse.")
    assert bring(one, version, "fast_forward") is None
    assert bring(one, version, "none") is None


def test_without_push_the_branches_of_the_clone_change(one):
    version = run(one, 0.8)
    bring(one, version, "pull_request", push=False)
    assert git(one.root, "rev-list", "--count", f"main..{BRANCH}") == "1"
    bring(one, version, "fast_forward", push=False)
    assert git(one.root, "rev-parse", "main") == version.commit
    assert "has the commit of onnx v0.1.0 already" in bring(one, version, "pull_request", push=False)
    assert git(one.root, "ls-remote", "origin", BRANCH) == ""


def test_push_options_reach_the_host(one):
    hooks = one.root.parent / "origin.git" / "hooks" / "post-receive"
    hooks.write_text('#!/bin/sh\necho "$GIT_PUSH_OPTION_0" > opened\n')
    hooks.chmod(0o755)
    git(one.root.parent / "origin.git", "config", "receive.advertisePushOptions", "true")
    bring(one, run(one, 0.8), "pull_request", push_options=["merge_request.create"])
    assert (one.root.parent / "origin.git" / "opened").read_text() == "merge_request.create\n"


def test_missing_branch_is_named(one):
    assert "couldn't find remote ref refs/heads/trunk" in bring(
        one, run(one, 0.8), "pull_request", branch="trunk"
    )
