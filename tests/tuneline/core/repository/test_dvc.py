import subprocess

import pytest

from tests.dvc_files import add_remote, init_dvc
from tuneline.core.repository.dvc import (
    NoRemoteError,
    dvc_config,
    local_settings,
    read_lock,
    require_remote,
    share_settings,
)
from tuneline.core.runtime.errors import StageError


def test_lock_with_a_conflict_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "dvc.lock").write_text("stages:\n<<<<<<< HEAD\n  a: {}\n=======\n  b: {}\n>>>>>>> other\n")
    with pytest.raises(StageError) as refused:
        read_lock(tmp_path)
    assert "conflict" in refused.value.problem
    assert "git checkout --ours dvc.lock" in refused.value.hint


def test_remote_whose_disk_is_not_mounted_is_refused(tmp_path):
    """DVC would create its folder on another disk."""
    root, shelf = tmp_path / "repo", tmp_path / "shelf"
    root.mkdir()
    subprocess.run(["git", "-C", str(root), "init", "--quiet"], check=True)
    init_dvc(root)
    with pytest.raises(NoRemoteError, match="no default remote"):
        require_remote(root)
    add_remote(root, shelf)
    shelf.mkdir(exist_ok=True)
    require_remote(root)
    shelf.rename(tmp_path / "unmounted")
    with pytest.raises(NoRemoteError, match=f"{shelf}, .*not exist"):
        require_remote(root)
    assert not shelf.exists()


def test_worktree_shares_cache_and_remotes_of_a_repository_in_any_folder(tmp_path):
    """The address of a folder with letters beyond ASCII, which DVC cannot write to its settings."""
    root, worktree = tmp_path / "José 项目", tmp_path / "worktree"
    for folder in (root, worktree):
        (folder / ".dvc").mkdir(parents=True)
    (root / ".dvc/config").write_text(
        f"[core]\n    remote = store\n['remote \"store\"']\n    url = {root}/remote\n", encoding="utf-8"
    )
    share_settings(root, worktree)
    settings = dvc_config(worktree)
    assert settings["cache"]["dir"] == str(root / ".dvc/cache")
    assert settings["core"]["remote"] == "store"
    assert settings["remote"]["store"]["url"] == f"{root}/remote"
    assert settings["remote"]["store"]["verify"] is True
    with local_settings(worktree) as edited:
        edited["core"]["autostage"] = True
    assert dvc_config(worktree)["core"]["autostage"] is True
    assert dvc_config(worktree)["remote"]["store"]["url"] == f"{root}/remote"
