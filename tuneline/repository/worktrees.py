"""Working trees beside the one of a person: of a run, of an experiment, and of a version for a moment.

What DVC does for a version, it does in a working tree of the commit, which has the cache and the remotes of
the repository.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.repository.dvc import NoRemoteError, is_lock, read_lock, require_remote, share_settings
from tuneline.repository.git import ArtifactError, GitError, artifact_path, lock_at, run_git
from tuneline.repository.programs import dvc_error, start_dvc
from tuneline.runtime.atomic_files import write_json
from tuneline.runtime.disk_errors import explain_disk_errors

RWLOCK = Path(".dvc/tmp/rwlock")
"""File in which DVC names the processes that run stages."""
REMOTE_TIMEOUT = 60.0
"""Seconds that the DVC remote has to answer."""


@dataclass(frozen=True)
class IsolatedTree:
    """The working tree of one run or experiment, beside the working tree of a person, which it never touches.

    It is a git worktree that shares the repository's objects and DVC's cache and settings. Beside it are two
    files. Its record says what it is for; the record is written last and removed first, so what a kill has
    left half made has no record, and is made again. Its lock is held by the process that works in it, and by
    what that process has started.

    Who creates or removes trees holds another lock, of all trees of that kind.

    Attributes:
        root: Folder of the repository.
        path: Folder of the working tree.
        prefix: What the names of the files beside it begin with. Without one, the record of a tree ``a`` is
            ``a.json``, so no tree may have that name.
    """

    root: Path
    path: Path
    prefix: str = ""

    def beside(self, suffix: str) -> Path:
        """Return the path of a file beside the working tree."""
        return self.path.with_name(f"{self.prefix}{self.path.name}.{suffix}")

    @property
    def record(self) -> Path:
        """The file that says what the tree is for."""
        return self.beside("json")

    @property
    def lock(self) -> Path:
        """The file that is locked while a process works in the tree."""
        return self.beside("lock")

    @property
    def is_complete(self) -> bool:
        """True if the tree was created to the end, and nobody has removed its folder."""
        return self.record.exists() and self.path.is_dir()

    @contextlib.contextmanager
    def created(self, commit: str, record: Mapping[str, Any]) -> Iterator[None]:
        """Create the tree at a commit, let the block complete it, and write its record.

        An exception leaves nothing of it.

        Raises:
            DiskError: The disk is full, or cannot be written.
            GitError: Git cannot create it.
        """
        try:
            with explain_disk_errors(self.path):
                run_git(
                    self.root, "worktree", "add", "--quiet", "--force", "--detach", str(self.path), commit
                )
                share_settings(self.root, self.path)
                yield
                write_json(self.record, record)
        except BaseException:
            self.remove()
            raise

    def repair(self) -> None:
        """Restore what a kill in the tree has left, so that its run can go on. This process holds its lock.

        A committed ``dvc.lock`` that is damaged is restored, because DVC writes it in place; DVC's run cache
        has what was computed. Locks of a killed git are removed, and that of a killed DVC: it waits for every
        process with the number of one that was killed.
        """
        for name in ("index.lock", "HEAD.lock"):
            lock = run_git(self.path, "rev-parse", "--path-format=absolute", "--git-path", name)
            Path(lock).unlink(missing_ok=True)
        (self.path / RWLOCK).unlink(missing_ok=True)
        file = self.path / "dvc.lock"
        if file.exists() and not is_lock(file):
            file.unlink()
            with contextlib.suppress(GitError):  # it may not be committed yet
                run_git(self.path, "checkout", "--", "dvc.lock")

    def remove(self) -> None:
        """Remove the record and the tree, complete or not.

        The lock stays, because this process may hold it.
        """
        self.record.unlink(missing_ok=True)
        with contextlib.suppress(GitError):  # git does not know it, or knows only its name
            run_git(self.root, "worktree", "remove", "--force", "--force", str(self.path))
        shutil.rmtree(self.path, ignore_errors=True)
        _forget_missing_trees(self.root, self.path.parent)


def _forget_missing_trees(root: Path, folder: Path) -> None:
    """Remove git's entries of the trees in a folder that are gone, or that git never completed.

    A kill in the first instant of ``git worktree add`` leaves an entry that ``git worktree prune`` keeps,
    because it is locked; or one with empty files, with which git neither fetches nor lists a branch.
    """
    common = Path(run_git(root, "rev-parse", "--path-format=absolute", "--git-common-dir"))
    for entry in (common / "worktrees").glob("*"):
        place = _content(entry / "gitdir")  # the file .git of the tree
        file = entry / place
        if place and file.parent.parent.resolve() != folder.resolve():
            continue
        if not place or not file.exists() or _content(entry / "commondir") != "../..":
            shutil.rmtree(entry)


def _content(file: Path) -> str:
    """Return the text of a file of git; empty if it is missing, or a power cut left zeros."""
    if not file.exists():
        return ""
    return file.read_text(encoding="utf-8", errors="surrogateescape").strip("\0\n")


@contextlib.contextmanager
def at_commit(root: Path, commit: str) -> Iterator[Path]:
    """Yield a working tree of a commit, which ends with the block."""
    folder = root / ".dvc" / "tmp" / "versions"
    folder.mkdir(parents=True, exist_ok=True)
    tree = IsolatedTree(root, folder / f"{commit[:12]}-{os.getpid()}")
    try:
        with tree.created(commit, {}):
            pass
        yield tree.path
    finally:
        tree.remove()


def why_not_in_dvc_remote(root: Path, artifact: str, commit: str) -> str | None:
    """Return why the DVC remote does not have an artifact, as far as is known; ``None`` if it has it."""
    try:
        require_remote(root)
        path = artifact_path(root, artifact, commit)
        if lock_at(root, commit).out(path) is None:
            return f"dvc.lock of {commit[:12]} does not list it"
        with at_commit(root, commit) as tree:
            lacking = lacking_in_remote(tree, path)
    except ArtifactError as problem:
        return str(problem)
    except (NoRemoteError, RemoteUnknownError) as problem:
        return f"the DVC remote cannot be asked ({problem})"
    if lacking:
        return "the DVC remote does not have its files"
    return None


class RemoteUnknownError(Exception):
    """The DVC remote cannot be asked."""


def lacking_in_remote(tree: Path, *paths: str) -> list[str]:
    """Return the outs of a working tree that the default DVC remote lacks, as far as it knows.

    Raises:
        RemoteUnknownError: It cannot be asked, or does not answer.
    """
    try:
        done = start_dvc(tree, "status", "--cloud", "--json", *paths, timeout=REMOTE_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise RemoteUnknownError(f"no answer within {REMOTE_TIMEOUT:g} seconds") from None
    if done.returncode:
        raise RemoteUnknownError(dvc_error(done.stderr).partition("\n")[0])
    lacking = {path for path, state in json.loads(done.stdout).items() if state in {"new", "missing"}}
    # What the cache lacks as well is in a warning only, if it is a folder.
    paths_by_hash = {md5: path for path, md5 in read_lock(tree).outs().items()}
    for md5 in re.findall(r"md5: ([0-9a-f]+(?:\.dir)?)", done.stderr):
        lacking.add(paths_by_hash.get(md5, md5))
    return sorted(lacking)
