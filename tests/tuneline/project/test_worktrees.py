"""Isolated trees in a real repository: what a failure or a kill leaves of them."""

import subprocess

import pytest

from tests.dvc_files import init_dvc
from tests.faults.kills import killed
from tests.project import GIT_IDENTITY
from tuneline.project.worktrees import GitError, IsolatedTree, run_git


@pytest.fixture
def tree(tmp_path, homes) -> IsolatedTree:
    root = tmp_path / "repo"
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    init_dvc(root)
    subprocess.run(["git", "commit", "--quiet", "--message=Start"], cwd=root, check=True, env=GIT_IDENTITY)
    (root / ".dvc/tmp/trees").mkdir(parents=True)
    return IsolatedTree(root, root / ".dvc/tmp/trees/a", prefix=".")


def worktrees(tree: IsolatedTree) -> int:
    return run_git(tree.root, "worktree", "list").count("\n") + 1


def test_tree_is_complete_once_its_record_is_written(tree):
    with tree.created("HEAD", {"for": "a test"}):
        assert (tree.path / ".dvc/config.local").exists()
        assert not tree.is_complete
    assert tree.is_complete
    assert tree.record.name == ".a.json"


def test_failed_creation_leaves_nothing(tree):
    with pytest.raises(RuntimeError), tree.created("HEAD", {}):
        raise RuntimeError
    assert not [*tree.path.parent.iterdir()]
    assert worktrees(tree) == 1


def test_commit_that_does_not_exist_leaves_nothing(tree):
    with pytest.raises(GitError), tree.created("no-such-commit", {}):
        pass
    assert not [*tree.path.parent.iterdir()]


def test_killed_creation_is_incomplete_and_can_be_repeated(tree):
    def create() -> None:
        with tree.created("HEAD", {}):
            pass

    def is_record(event: str, arguments: tuple) -> bool:
        return event == "os.rename" and str(arguments[1]) == str(tree.record)

    assert killed(create, 1, is_record)
    assert tree.path.is_dir()
    assert not tree.is_complete
    tree.remove()
    create()
    assert tree.is_complete


def test_removed_tree_leaves_its_lock_only(tree):
    with tree.created("HEAD", {}):
        tree.lock.touch()
    tree.remove()
    assert [*tree.path.parent.iterdir()] == [tree.lock]
    assert worktrees(tree) == 1


def test_folder_that_a_person_removed_is_no_complete_tree(tree):
    with tree.created("HEAD", {}):
        pass
    tree.path.rename(tree.path.with_name("elsewhere"))
    assert not tree.is_complete
    tree.remove()
    assert worktrees(tree) == 1
