"""Working trees beside the one of a person: of a run, and of a version for a moment.

What DVC does for a version, it does in a working tree of the commit, which has the cache and the remotes of
the repository.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tuneline.core.paths import ONNX
from tuneline.core.repository.dvc import (
    NoRemoteError,
    cached_files,
    is_intact,
    is_lock,
    read_lock,
    require_remote,
    share_settings,
)
from tuneline.core.repository.git import GitError, lock_at, run_git
from tuneline.core.repository.programs import dvc_error, run_dvc, start_dvc
from tuneline.core.runtime.errors import DataError, explain_disk_errors

RWLOCK = Path(".dvc/tmp/rwlock")
"""File in which DVC names the processes that run stages."""
REMOTE_TIMEOUT = 60.0
"""Seconds that the DVC remote has to answer."""


def add_worktree(root: Path, path: Path, commit: str) -> None:
    """Create a git worktree at a commit, with the objects of a repository and DVC's cache and settings.

    An exception leaves nothing of it.

    Raises:
        DiskError: The disk is full, or cannot be written.
        GitError: Git cannot create it.
    """
    try:
        with explain_disk_errors(path):
            # --force twice: also where git was killed while it created the tree
            run_git(root, "worktree", "add", "--force", "--force", "--detach", str(path), commit)
            share_settings(root, path)
    except BaseException:
        remove_worktree(root, path)
        raise


def repair_worktree(path: Path) -> None:
    """Restore what a kill in a worktree has left, so that its run can go on.

    A committed ``dvc.lock`` that is damaged is restored, because DVC writes it in place; DVC's run cache has
    what was computed. Locks of a killed git are removed, and that of a killed DVC: it waits for every process
    with the number of one that was killed.
    """
    for name in ("index.lock", "HEAD.lock"):
        lock = run_git(path, "rev-parse", "--path-format=absolute", "--git-path", name)
        Path(lock).unlink(missing_ok=True)
    (path / RWLOCK).unlink(missing_ok=True)
    file = path / "dvc.lock"
    if file.exists() and not is_lock(file):
        file.unlink()
        with contextlib.suppress(GitError):  # it may not be committed yet
            run_git(path, "checkout", "--", "dvc.lock")


def remove_worktree(root: Path, path: Path) -> None:
    """Remove a worktree, complete or not."""
    with contextlib.suppress(GitError):  # git does not know it, or knows only its name
        run_git(root, "worktree", "remove", "--force", "--force", str(path))
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def at_commit(root: Path, commit: str) -> Iterator[Path]:
    """Yield a working tree of a commit, which ends with the block."""
    folder = root / ".dvc" / "tmp" / "versions"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{commit[:12]}-{os.getpid()}"
    add_worktree(root, path, commit)
    try:
        yield path
    finally:
        remove_worktree(root, path)


def fetched_files(root: Path, commit: str, path: str) -> dict[str, Path]:
    """Return where DVC's cache has the files of a commit that DVC tracks, by their names in the folder.

    What the cache lacks is fetched from the default remote. A path that is a file has the name ``""``.

    Raises:
        DataError: Neither the cache nor the remote has them, or a file is damaged.
    """
    lock = lock_at(root, commit)
    files = cached_files(root, lock, path)
    reason = None
    if None in files.values():
        with at_commit(root, commit) as tree:  # DVC compares what it fetches with its hash
            reason = run_dvc(tree, "fetch", path)
        files = cached_files(root, lock, path)

    cached = {}
    for name, file in files.items():
        if file is None:
            reason = reason or "neither the cache nor the remote of DVC has it"
            hint = "If another machine has it, there: dvc push --all-tags"
            raise DataError(f"{path} of {commit[:12]} cannot be fetched: {reason}", hint)
        if not is_intact(file):
            hint = f"`rm {file}`: DVC then takes the file from the remote."
            raise DataError(f"{path} of {commit[:12]} is damaged in DVC's cache.", hint)
        cached[name] = file
    return cached


class RemoteUnknownError(Exception):
    """The DVC remote cannot be asked."""


def why_not_in_dvc_remote(root: Path, commit: str) -> str | None:
    """Return why the DVC remote does not have the model of a commit, as far as is known; else ``None``."""
    path = ONNX.as_posix()
    if lock_at(root, commit).out(path) is None:
        return f"dvc.lock of {commit[:12]} does not list it"
    try:
        require_remote(root)
        with at_commit(root, commit) as tree:
            is_lacking = lacking_in_remote(tree, path)
    except (NoRemoteError, RemoteUnknownError) as problem:
        return f"the DVC remote cannot be asked ({problem})"
    return "the DVC remote does not have its files" if is_lacking else None


def lacking_in_remote(tree: Path, path: str) -> bool:
    """Return True if the default DVC remote lacks an out of a working tree, as far as it knows.

    Raises:
        RemoteUnknownError: It cannot be asked, or does not answer.
    """
    try:
        done = start_dvc(tree, "status", "--cloud", "--json", path, timeout=REMOTE_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise RemoteUnknownError(f"no answer within {REMOTE_TIMEOUT:g} seconds") from None
    if done.returncode:
        raise RemoteUnknownError(dvc_error(done.stderr).partition("\n")[0])
    states = set(json.loads(done.stdout).values())
    # What the cache lacks as well is in a warning only, if it is a folder.
    warned = re.findall(r"md5: ([0-9a-f]+(?:\.dir)?)", done.stderr)
    return bool(states & {"new", "missing"}) or read_lock(tree).out(path) in warned
