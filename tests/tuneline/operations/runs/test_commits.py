"""A branch is moved forward in origin and in clones where somebody works."""

import pytest

from tests.faults.clones import Machine, clone, git, origin
from tuneline.core.repository.git import GitError
from tuneline.operations.runs.commits import NotFastForwardError, fast_forward
from tuneline.operations.runs.repository import Repository


@pytest.fixture
def one(tmp_path) -> Machine:
    origin(tmp_path)
    return clone(tmp_path, "one")


def move(machine: Machine, commit: str, *, push: bool = True, branch: str = "main") -> list[str]:
    """Move a branch and return the messages."""
    messages = []
    fast_forward(Repository(machine.root, messages.append), branch, commit, push=push)
    return messages


def changed(machine: Machine, name: str, content: str, *, parent: str = "main") -> str:
    """A commit that only a hash names: `parent` with one more file."""
    git(machine.root, "switch", "--quiet", "--detach", parent)
    (machine.root / name).write_text(content)
    git(machine.root, "add", name)
    git(machine.root, "commit", "--quiet", f"--message={content}")
    commit = git(machine.root, "rev-parse", "HEAD")
    git(machine.root, "switch", "--quiet", "main")
    return commit


def in_origin(machine: Machine, branch: str = "main") -> str:
    return git(machine.root, "ls-remote", "origin", f"refs/heads/{branch}").partition("\t")[0]


def test_branch_moves_in_origin_and_with_the_working_tree(one):
    first = changed(one, "data", "new rows")
    assert move(one, first) == []
    assert in_origin(one) == git(one.root, "rev-parse", "main") == first
    assert (one.root / "data").read_text() == "new rows"
    assert move(one, first, branch="trunk") == []
    assert git(one.root, "rev-parse", "trunk") == in_origin(one, "trunk") == first, (
        "made, as it did not exist"
    )


def test_branch_with_other_commits_is_not_moved(one, tmp_path):
    two = clone(tmp_path, "two")
    theirs = changed(two, "code", "theirs")
    move(two, theirs)
    ours = changed(one, "data", "ours")
    with pytest.raises(NotFastForwardError, match="main of origin"):
        move(one, ours)
    assert in_origin(one) == theirs
    move(one, ours, push=False)
    with pytest.raises(NotFastForwardError, match="main has other commits"):
        move(one, theirs, push=False)
    (message,) = move(one, theirs)
    assert "that of this clone is not" in message
    assert git(one.root, "rev-parse", "main") == ours


def test_files_of_a_person_are_not_overwritten(one):
    commit = changed(one, "data", "new rows")
    (one.root / "data").write_text("a person's own")
    with pytest.raises(GitError, match="would be overwritten"):
        move(one, commit, push=False)
    (message,) = move(one, commit)
    assert "would be overwritten" in message
    assert in_origin(one) == commit
    assert (one.root / "data").read_text() == "a person's own"
    assert git(one.root, "rev-parse", "main") == git(one.root, "rev-parse", f"{commit}^")
