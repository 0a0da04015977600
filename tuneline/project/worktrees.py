"""Git commands that must succeed, and working trees beside that of a person, in which runs and experiments train.

A working tree under ``.dvc/tmp/`` is a git worktree that shares the repository's objects and DVC's cache and
settings.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tuneline.core.disk_errors import explain_disk_errors
from tuneline.core.paths import SITE_CACHE
from tuneline.core.terminal import visible
from tuneline.project.dvc import is_lock, share_settings
from tuneline.readers.files import redacted


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
    """Run git and return its output; a ``GitError`` with its message if it fails, or takes more seconds than ``timeout``.

    Git asks for no password, runs no hooks of a person, and has an author for commits and tags.
    """
    env = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **_author(root), **(env or {})}
    command = ["git", "-c", "core.hooksPath=/dev/null", *arguments]
    while "-c" in arguments:  # settings, which the message leaves out
        arguments = arguments[: (at := arguments.index("-c"))] + arguments[at + 2 :]
    shown = " ".join(arguments)
    try:
        done = subprocess.run(
            command,
            cwd=root,
            env=env,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise GitError(visible(f"git {shown}: no answer in {timeout:g} s")) from None
    if done.returncode:
        raise GitError(visible(f"git {shown}: {(done.stderr or done.stdout).strip()}"))
    return done.stdout.strip()


def _author(root: Path) -> dict[str, str]:
    """Return variables with an author of commits and tags, unless git has one configured for this repository."""
    probe = subprocess.run(["git", "config", "user.email"], cwd=root, capture_output=True, check=False)
    if probe.returncode == 0 or "GIT_AUTHOR_EMAIL" in os.environ:
        return {}
    author = {"NAME": "Tuneline", "EMAIL": "tuneline@localhost"}
    return {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in author.items()}


def add_worktree(root: Path, path: Path, commit: str) -> None:
    """Create a working tree of a commit."""
    with explain_disk_errors(path):
        run_git(root, "worktree", "add", "--quiet", "--force", "--detach", str(path), commit)
        share_settings(root, path)


def remove_worktree(root: Path, path: Path) -> None:
    """Remove a working tree, complete or not."""
    with contextlib.suppress(GitError):
        run_git(root, "worktree", "remove", "--force", "--force", str(path))
    shutil.rmtree(path, ignore_errors=True)


def repair_lock(path: Path) -> None:
    """Restore the committed ``dvc.lock`` if it is damaged: DVC writes it in place.

    DVC's run cache has what was computed.
    """
    if (path / "dvc.lock").exists() and not is_lock(path / "dvc.lock"):
        (path / "dvc.lock").unlink()
        with contextlib.suppress(GitError):  # it may not be committed yet
            run_git(path, "checkout", "--", "dvc.lock")


def python_first() -> dict[str, str]:
    """Return variables with which ``python`` is the one that runs this, as the commands of stages expect, and prints at once."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {"PATH": path, "PYTHONUNBUFFERED": "1"}


def site_cache(root: Path) -> dict[str, str]:
    """Give DVC a site cache in the project, for its user only: DVC would create the folder for everyone."""
    if not (root / ".dvc").is_dir():
        return {}
    folder = root.absolute() / SITE_CACHE
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {"DVC_SITE_CACHE_DIR": str(folder)}


def run_dvc(root: Path, *arguments: str) -> str | None:
    """Run a DVC command in a working tree; return the reason if it fails."""
    command = [sys.executable, "-P", "-m", "dvc", *arguments]
    env = {**os.environ, **python_first(), **site_cache(root)}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else visible(done.stderr.strip() or f"exit code {done.returncode}")
