"""Git commands that must succeed, and the isolated working trees of flows and experiments."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.readers.files import redacted
from tuneline.repository.dvc import is_lock, share_settings
from tuneline.repository.dvc_locks import RWLOCK
from tuneline.repository.git import refuse_foreign
from tuneline.runtime.atomic_files import write_json
from tuneline.runtime.disk_errors import explain_disk_errors
from tuneline.runtime.terminal import visible


class GitError(Exception):
    """A git command failed; the message is git's, without the passwords of addresses."""

    def __init__(self, message: str) -> None:
        super().__init__(redacted(message))


def run_git(
    root: Path,
    *arguments: str,
    text: str | None = None,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run git and return its output.

    Git asks for no password, runs no hooks of a person, and has an author for commits and tags.

    Raises:
        ForeignRepositoryError: Git refuses the repository, because it belongs to another user.
        GitError: Git fails for another reason, or takes more seconds than ``timeout``.
    """
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **_author(root), **(env or {})}
    command = ["git", "-c", "core.hooksPath=/dev/null", *arguments]
    shown = " ".join(_shortened(_without_settings(arguments)))
    try:
        done = subprocess.run(
            command,
            cwd=root,
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise GitError(visible(f"git {shown}: no answer in {timeout:g} s")) from None
    if done.returncode:
        refuse_foreign(done.stderr)
        printed = "\n".join(_shortened((done.stderr or done.stdout).strip().splitlines()))
        raise GitError(visible(f"git {shown}: {printed}"))
    return done.stdout.strip()


MOST_SHOWN = 12
"""Arguments and lines of a failed command that a message has: a push may name thousands of tags."""


def _shortened(parts: Sequence[str]) -> list[str]:
    """Return the first and last arguments, or lines, of many."""
    if len(parts) <= MOST_SHOWN:
        return list(parts)
    half = MOST_SHOWN // 2
    return [*parts[:half], f"[... {len(parts) - 2 * half} more]", *parts[-half:]]


def _without_settings(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without ``-c NAME=VALUE``, which a message need not have."""
    shown = list(arguments)
    while "-c" in shown:
        position = shown.index("-c")
        del shown[position : position + 2]
    return shown


def _author(root: Path) -> dict[str, str]:
    """Return variables with an author of commits and tags, unless git has one for this repository."""
    probe = subprocess.run(["git", "config", "user.email"], cwd=root, capture_output=True, check=False)
    if probe.returncode == 0 or "GIT_AUTHOR_EMAIL" in os.environ:
        return {}
    author = {}
    for role in ("AUTHOR", "COMMITTER"):
        author[f"GIT_{role}_NAME"] = "Tuneline"
        author[f"GIT_{role}_EMAIL"] = "tuneline@localhost"
    return author


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
