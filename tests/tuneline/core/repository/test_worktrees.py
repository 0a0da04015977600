"""Worktrees in a real repository: what a failure or a kill leaves of them, and the files of a version."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.dvc_files import add_model, add_remote, init_dvc
from tests.flows.conftest import sh
from tests.project import GIT_IDENTITY
from tuneline.core.repository.dvc import cached_files
from tuneline.core.repository.git import GitError, lock_at, run_git
from tuneline.core.repository.worktrees import add_worktree, fetched_files, remove_worktree, repair_worktree
from tuneline.core.runtime.errors import DataError


@pytest.fixture
def root(tmp_path, homes) -> Path:
    root = tmp_path / "repo"
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    init_dvc(root)
    subprocess.run(["git", "commit", "--quiet", "--message=Start"], cwd=root, check=True, env=GIT_IDENTITY)
    return root


@pytest.fixture
def tree(root) -> Path:
    return root / ".dvc/tmp/trees/a"


def worktrees(root: Path) -> int:
    return run_git(root, "worktree", "list").count("\n") + 1


def test_failed_creation_leaves_nothing(root, tree):
    with pytest.raises(GitError):
        add_worktree(root, tree, "nosuch")
    assert not tree.exists()
    assert worktrees(root) == 1


@pytest.mark.promise("killed-checkout")
def test_tree_is_created_again_where_git_was_killed_before_its_folder_had_a_file(root, tree):
    add_worktree(root, tree, "HEAD")
    (root / ".git/worktrees/a/locked").write_text("initializing")
    shutil.rmtree(tree)
    remove_worktree(root, tree)
    add_worktree(root, tree, "HEAD")
    assert worktrees(root) == 2


@pytest.mark.promise("killed-checkout")
def test_lock_of_a_killed_git_is_removed_with_what_else_a_kill_left(root, tree):
    add_worktree(root, tree, "HEAD")
    (tree / ".gitattributes").write_text("*.csv filter=killer")
    (tree / "rows.csv").write_text("text")
    killer = ("-c", "filter.killer.clean=kill -9 $PPID", "-c", "filter.killer.required=true")
    with pytest.raises(GitError):
        run_git(tree, *killer, "add", "--all")
    with pytest.raises(GitError, match=r"index\.lock"):
        run_git(tree, "add", "--all")
    repair_worktree(tree)
    run_git(tree, "add", "--all")
    assert "rows.csv" in run_git(tree, "ls-files")


@pytest.mark.promise("damaged-model")
def test_files_of_a_version_come_from_the_cache_else_from_the_remote_and_are_whole(root, tmp_path):
    (root / "dvc.yaml").write_text("stages: {export: {cmd: export, outs: [models/onnx]}}\n")
    add_model(root)
    run_git(root, "add", "--all")
    run_git(root, "commit", "--quiet", "--message=A model")
    path = "models/onnx"
    assert fetched_files(root, "HEAD", path)["model.onnx"].read_bytes() == b"a model"

    # from the remote, which the commit does not name
    add_remote(root, tmp_path / "shelf", local=True)
    sh("dvc", "push", "--quiet", "--all-commits", cwd=root)
    shutil.rmtree(root / ".dvc/cache/files")
    assert fetched_files(root, "HEAD", path)["model.onnx"].read_bytes() == b"a model"

    # a damaged file is no model
    file = cached_files(root, lock_at(root, "HEAD"), path)["model.onnx"]
    file.chmod(0o644)
    file.write_bytes(b"another")
    with pytest.raises(DataError, match="is damaged in DVC's cache"):
        fetched_files(root, "HEAD", path)
    shutil.rmtree(root / ".dvc/cache/files")
    shutil.rmtree(tmp_path / "shelf/files")
    with pytest.raises(DataError, match="cannot be fetched"):
        fetched_files(root, "HEAD", path)
