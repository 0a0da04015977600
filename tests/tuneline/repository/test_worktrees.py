"""Isolated trees in a real repository: what a failure or a kill leaves of them."""

import shutil
import subprocess

import pytest

from tests.dvc_files import init_dvc
from tests.faults.kills import killed
from tests.project import GIT_IDENTITY
from tuneline.repository.git import GitError, run_git
from tuneline.repository.worktrees import IsolatedTree


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


@pytest.mark.parametrize("content", [b"", None])
@pytest.mark.parametrize("name", ["commondir", "HEAD"])
@pytest.mark.promise("killed-checkout")
def test_tree_that_git_was_killed_to_create_stops_neither_git_nor_another_tree(tree, name, content):
    with tree.created("HEAD", {}):
        pass
    entry = tree.root / ".git/worktrees/a"
    (entry / "locked").write_text("initializing")
    (entry / name).unlink()
    if content is not None:
        (entry / name).write_bytes(content)

    another = IsolatedTree(tree.root, tree.path.with_name("b"), prefix=".")
    another.remove()
    with another.created("HEAD", {}):
        assert run_git(tree.root, "branch", "--list")
        run_git(tree.root, "log", "--all")
    tree.remove()
    with tree.created("HEAD", {}):
        assert worktrees(tree) == 3


@pytest.mark.promise("killed-checkout")
def test_tree_is_created_again_where_git_was_killed_before_its_folder_had_a_file(tree):
    with tree.created("HEAD", {}):
        pass
    (tree.root / ".git/worktrees/a/locked").write_text("initializing")
    shutil.rmtree(tree.path)
    tree.remove()
    with tree.created("HEAD", {}):
        assert worktrees(tree) == 2


def test_worktree_of_a_person_on_a_disk_that_is_away_is_kept(tree, tmp_path):
    run_git(tree.root, "worktree", "add", "--quiet", "--detach", str(tmp_path / "disk"))
    (tmp_path / "disk").rename(tmp_path / "away")
    with tree.created("HEAD", {}):
        pass
    tree.remove()
    (tmp_path / "away").rename(tmp_path / "disk")
    assert run_git(tmp_path / "disk", "status", "--porcelain") == ""


@pytest.mark.promise("killed-checkout")
def test_lock_of_a_killed_git_is_removed_with_what_else_a_kill_left(tree):
    with tree.created("HEAD", {}):
        pass
    (tree.path / ".gitattributes").write_text("*.csv filter=killer")
    (tree.path / "rows.csv").write_text("text")
    killer = ("-c", "filter.killer.clean=kill -9 $PPID", "-c", "filter.killer.required=true")
    with pytest.raises(GitError):
        run_git(tree.path, *killer, "add", "--all")
    with pytest.raises(GitError, match=r"index\.lock"):
        run_git(tree.path, "add", "--all")
    tree.repair()
    run_git(tree.path, "add", "--all")
    assert "rows.csv" in run_git(tree.path, "ls-files")
