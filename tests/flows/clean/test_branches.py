from dataclasses import replace

import pytest

from flows.clean import clean_branches
from flows.promotion.judgements import Conditions, Judgement, Judgements
from tests.faults.clones import git
from tuneline.repository.worktrees import GitError


def branches(root) -> set[str]:
    names = git(root, "for-each-ref", "--format=%(refname:strip=2)", "refs/heads/runs").split()
    return {name.split("-", 3)[3] for name in names}


def test_old_result_goes_unless_it_is_needed(clone, past, cleaning, tmp_path):
    past.run("rejected", 100)
    past.run("young", 10)
    registry = cleaning().registry
    for name in ("former", "production"):
        version = registry.promote(past.run(name, 100).commit, "production", "It is better.")
        assert registry.in_stage("production") == version
    judgement = Judgement("run", past.run("again", 100), Conditions(None, None, pushed=False))
    Judgements(clone).add("tree", replace(judgement, seen=cleaning().before(10)))
    git(clone.root, "branch", "runs/2026-01-01-theirs", past.run("theirs-before", 100).commit)
    git(clone.root, "worktree", "add", "--quiet", str(tmp_path / "tree"), "runs/2026-01-01-theirs")
    git(tmp_path / "tree", "commit", "--quiet", "--allow-empty", "--message=A person's", "--date=2020-01-01")
    git(clone.root, "branch", "runs/2026-01-01-visited", past.run("visited-before", 100).commit)
    git(clone.root, "worktree", "add", "--quiet", str(tmp_path / "other"), "runs/2026-01-01-visited")
    before = branches(clone.root)

    assert clean_branches(cleaning()).number == 0
    dry = clean_branches(cleaning(dry_run=True, branch_days=90))
    assert branches(clone.root) == before
    assert clean_branches(cleaning(branch_days=90)) == dry
    assert branches(clone.root) == {"young", "production", "again", "theirs", "visited"}
    assert before - branches(clone.root) == {name.split("-", 3)[3] for name in dry.names}
    for version in registry.tags().versions:
        assert git(clone.root, "cat-file", "-t", version.commit) == "commit"


def test_push_removes_the_branches_of_runs_from_origin_first(clone, past, cleaning, tmp_path):
    git(tmp_path, "clone", "--quiet", "--bare", "repo", "origin.git")
    origin = tmp_path / "origin.git"
    git(clone.root, "remote", "add", "origin", str(origin))
    result = past.run("old", 100)
    git(
        clone.root,
        "push",
        "--quiet",
        "origin",
        f"refs/heads/{result.branch}",
        f"{result.commit}:refs/heads/mine",
    )
    git(origin, "update-ref", "refs/heads/runs/2026-01-01-theirs", "main")
    clean_branches(cleaning(dry_run=True, push=True, branch_days=90))
    assert branches(origin) == {"old", "theirs"}

    git(clone.root, "remote", "set-url", "--push", "origin", str(tmp_path / "nowhere.git"))
    with pytest.raises(GitError):
        clean_branches(cleaning(push=True, branch_days=90))
    assert branches(clone.root) == {"old"}, "the next run must find it"
    git(clone.root, "remote", "set-url", "--push", "origin", str(origin))
    assert clean_branches(cleaning(push=True, branch_days=90)).note == "1 in origin"
    assert branches(clone.root) == set()
    assert branches(origin) == {"theirs"}
    assert git(origin, "rev-parse", "mine") == result.commit
