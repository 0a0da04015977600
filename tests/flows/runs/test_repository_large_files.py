"""Files of Git LFS reach ``origin`` before what names them: the hook that pushes them is not run."""

import shutil

import pytest

from flows.runs.repository import Repository
from tests.faults.clones import git
from tests.project import GIT_IDENTITY
from tuneline.repository.worktrees import GitError

pytestmark = pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Repository:
    """A clone whose CSV files are of Git LFS, and which has commits that its origin lacks."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    for name, value in GIT_IDENTITY.items():
        monkeypatch.setenv(name, value)
    git(tmp_path, "lfs", "install")
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", "origin.git")
    git(tmp_path, "clone", "--quiet", f"file://{tmp_path}/origin.git", "one")
    root = tmp_path / "one"
    git(root, "lfs", "track", "*.csv")
    commit(root, "start")
    git(root, "push", "--quiet", "origin", "main")
    commit(root, "a correction")
    git(root, "tag", "--annotate", "onnx@v0.1.0", "--message=Better")
    return Repository(root)


def commit(root, text: str) -> None:
    (root / "labels.csv").write_text(text)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", f"--message={text}")


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_pushed_commit_has_its_large_files_in_a_clone(repository, tmp_path, kind):
    root = repository.root
    tag = git(root, "rev-parse", "onnx@v0.1.0")
    refspec = {"branch": "HEAD:refs/heads/runs/1", "tag": f"{tag}:refs/tags/onnx@v0.1.0"}[kind]
    repository.transfer("push", "--atomic", "origin", refspec)
    git(tmp_path, "clone", "--quiet", f"file://{tmp_path}/origin.git", "two")
    git(tmp_path / "two", "checkout", "--quiet", {"branch": "origin/runs/1", "tag": "onnx@v0.1.0"}[kind])
    assert (tmp_path / "two/labels.csv").read_text() == "a correction"


def test_large_file_that_cannot_be_pushed_stops_the_push(repository, tmp_path):
    shutil.rmtree(repository.root / ".git/lfs/objects")
    (repository.root / ".git/lfs/objects").mkdir()
    with pytest.raises(GitError, match="lfs push"):
        Repository(repository.root, patience=60).transfer("push", "origin", "HEAD:refs/heads/runs/1")
    assert git(repository.root, "ls-remote", "origin", "refs/heads/runs/1") == ""


def test_push_that_removes_a_branch_needs_no_large_files(repository):
    repository.transfer("push", "origin", "HEAD:refs/heads/runs/1")
    repository.transfer("push", "origin", ":refs/heads/runs/1")
    assert git(repository.root, "ls-remote", "origin", "refs/heads/runs/1") == ""
