"""A rewritten branch of ``origin``, and one that has parted from that of this clone, are named with what is
lost."""

from pathlib import Path

import pytest

from tests.tuneline.repository.conftest import sh
from tuneline.repository.branches import parted, rewritten


def commit(root: Path, message: str, *files: str) -> str:
    for name in files:
        (root / name).write_text(message)
        sh("git", "add", name, cwd=root)
    sh("git", "commit", "--quiet", "--allow-empty", f"--message={message}", cwd=root)
    return sh("git", "rev-parse", "--short", "HEAD", cwd=root).stdout.strip()


def fetch(root: Path) -> None:
    sh("git", "fetch", "--quiet", "origin", cwd=root)


@pytest.fixture
def colleague(tmp_path):
    """A clone of an empty origin that has pushed a commit."""
    sh("git", "init", "--quiet", "--bare", "--initial-branch=main", "origin.git", cwd=tmp_path)
    sh("git", "clone", "--quiet", "origin.git", "colleague", cwd=tmp_path)
    commit(tmp_path / "colleague", "Start")
    sh("git", "push", "--quiet", "origin", "HEAD:main", cwd=tmp_path / "colleague")
    return tmp_path / "colleague"


@pytest.fixture
def clone(colleague, tmp_path):
    """The clone of the flows: an ingest has pushed rows."""
    sh("git", "clone", "--quiet", "origin.git", "clone", cwd=tmp_path)
    commit(tmp_path / "clone", "Ingest new rows: labels 5\n\nIngested-Rows: 5\nPrefect-Run: 1", "rows")
    sh("git", "push", "--quiet", "origin", "main", cwd=tmp_path / "clone")
    return tmp_path / "clone"


def test_branch_that_only_grows_has_no_problem(clone, colleague):
    sh("git", "pull", "--quiet", "origin", "main", cwd=colleague)
    commit(colleague, "More")
    sh("git", "push", "--quiet", "origin", "HEAD:main", cwd=colleague)
    fetch(clone)
    assert rewritten(clone, "main") is None
    assert parted(clone, "main") is None


def test_rewritten_branch_is_named_with_the_rows_that_are_lost(clone, colleague):
    rows = sh("git", "rev-parse", "--short", "HEAD", cwd=clone).stdout.strip()
    commit(colleague, "Another history")
    sh("git", "push", "--quiet", "--force", "origin", "HEAD:main", cwd=colleague)
    fetch(clone)
    problem = rewritten(clone, "main")
    lost = f"1 commits are in no branch of it any more, with 5 rows of flow ingest ({rows})"
    assert problem.message == f"main of origin was rewritten: {lost}"
    assert f"git branch rescued {rows}" in problem.hint

    sh("git", "push", "--quiet", "origin", f"{rows}:refs/heads/runs/night", cwd=clone)
    fetch(clone)
    assert rewritten(clone, "main") == problem, "flow clean removes such a branch"
    sh("git", "push", "--quiet", "origin", f"{rows}:refs/heads/rescued", cwd=clone)
    fetch(clone)
    assert rewritten(clone, "main") is None, "they are in another branch of origin"
    sh("git", "push", "--quiet", "origin", "--delete", "rescued", cwd=clone)
    assert rewritten(clone, "main") is not None
    sh("git", "reflog", "expire", "--expire=all", "refs/remotes/origin/main", cwd=clone)
    assert rewritten(clone, "main") is None, "it was meant"


def test_branches_that_have_parted_are_named(clone, colleague):
    commit(clone, "Mine")
    assert parted(clone, "main") is None, "it is only ahead"
    sh("git", "pull", "--quiet", "origin", "main", cwd=colleague)
    commit(colleague, "Theirs")
    sh("git", "push", "--quiet", "origin", "HEAD:main", cwd=colleague)
    fetch(clone)
    assert (
        parted(clone, "main").message
        == "main of this clone and of origin have parted: 1 commits are only here, 1 only in origin"
    )
    assert rewritten(clone, "main") is None
