"""The git repository that runs are made from, and file locks between processes of one machine."""

import contextlib
import fcntl
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.runs.outages import may_pass
from flows.settings import load_settings
from tuneline.readers.urls import redacted
from tuneline.terminal import say, visible

REPOSITORY_VARIABLE = "TUNELINE_REPOSITORY"
"""Environment variable with the path of the repository, if it is not the one that holds the flows."""
AUTHOR = {"name": "Tuneline", "email": "tuneline@localhost"}
"""Author of commits and tags if git has none configured."""


_STALLED = ("-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60")
"""Settings with which git gives up a connection over HTTP that transfers nothing for a minute, instead of waiting for ever."""
_LONGEST = 300.0
"""Seconds after which no retry begins: a host that drops every packet takes two minutes for each attempt."""


class GitError(Exception):
    """A git command failed; the message is git's, without the passwords of addresses."""

    def __init__(self, message: str) -> None:
        super().__init__(redacted(message))


class UnreachableError(GitError):
    """A git remote could not be reached, in any of several attempts."""


def _say_error(line: str) -> None:
    say(line, error=True)


@dataclass(frozen=True)
class Repository:
    """A clone, which a person may be working in: no method changes its working tree.

    Attributes:
        root: The folder that contains ``.git`` and ``.dvc``.
        log: Called with each message about a remote that cannot be reached, and what is done about it.
    """

    root: Path
    log: Callable[[str], None] = field(default=_say_error, compare=False)

    @classmethod
    def here(cls, log: Callable[[str], None] = _say_error) -> "Repository":
        """Return the repository that ``TUNELINE_REPOSITORY`` names, else the one that contains this file."""
        return cls(Path(os.environ.get(REPOSITORY_VARIABLE) or Path(__file__).parents[2]).resolve(), log)

    @property
    def state(self) -> Path:
        """Folder of checkouts, locks and records: ignored by git, and on the file system of DVC's cache."""
        return self.root / ".dvc" / "tmp" / "flows"

    def git(self, *arguments: str, cwd: Path | None = None, text: str | None = None) -> str:
        """Run git and return its output.

        Args:
            arguments: Arguments of git.
            cwd: A checkout of the repository; its root by default.
            text: Standard input.

        Raises:
            GitError: git failed.
        """
        # Nobody is there to type a password, and a person's hooks are not for these checkouts.
        env = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **({} if self.has_author else _author())}
        command = ["git", "-c", "core.hooksPath=/dev/null", *arguments]
        done = subprocess.run(command, cwd=cwd or self.root, env=env, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            shown = [argument for argument in arguments if argument not in _STALLED]
            raise GitError(visible(f"git {' '.join(shown)}: {(done.stderr or done.stdout).strip()}"))
        return done.stdout.strip()

    def transfer(self, *arguments: str) -> str:
        """Run a git command that talks to a remote: fetch, push, ls-remote.

        While the remote cannot be reached, the command is repeated after the delays in ``conf/flows.yaml``.

        Returns:
            The output of git.

        Raises:
            UnreachableError: The remote could not be reached in any attempt.
            GitError: git failed for another reason, which a retry does not change.
        """
        attempt, started = 0, time.monotonic()
        while True:
            try:
                return self.git(*_STALLED, *arguments)
            except GitError as error:
                if not may_pass(str(error)):
                    raise
                delays = load_settings(self.root).git.retry_delay_seconds
                if attempt == len(delays) or time.monotonic() - started > _LONGEST:
                    times = f"{attempt + 1} times in {time.monotonic() - started:.0f} s"
                    raise UnreachableError(f"{error}\nTried {times}.") from None
                self.log(f"{error}\nThe next attempt is in {delays[attempt]:g} s.")
            time.sleep(delays[attempt])
            attempt += 1

    @property
    def has_author(self) -> bool:
        """True if git has an author configured for this repository."""
        probe = subprocess.run(["git", "config", "user.email"], cwd=self.root, capture_output=True, check=False)
        return probe.returncode == 0 or "GIT_AUTHOR_EMAIL" in os.environ

    def resolve(self, ref: str) -> str:
        """Return the commit that ``ref`` names. A ref of a remote (``origin/main``) is fetched first.

        Raises:
            GitError: It names no commit, or the remote cannot be reached.
        """
        remote = ref.partition("/")[0]
        if remote in self.git("remote").split():
            self.transfer("fetch", remote)  # without --tags: a tag that both have and that differs would stop it
        try:
            return self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        except GitError:
            raise GitError(f"{ref!r} names no commit in {self.root}. Give a branch, a tag or a commit (`git branch -a`).") from None

    def has_remote(self, name: str = "origin") -> bool:
        """Return True if the repository has a git remote of that name."""
        return name in self.git("remote").split()


def safe_name(text: str) -> str:
    """Return a name that git takes in a branch and the file system in a path: letters, digits, ``-`` and ``_``, at most 100 bytes."""
    name = re.sub(r"[^\w-]+", "-", text).encode()[:100].decode(errors="ignore")
    return name.strip("-_") or "run"


def dvc_config(root: Path) -> dict[str, Any]:
    """Return DVC's settings in a checkout: all levels merged, relative addresses resolved."""
    from dvc.config import Config  # takes a fifth of a second to import

    return dict(Config(dvc_dir=str(root / ".dvc")))


def _author() -> dict[str, str]:
    return {f"GIT_{role}_{key.upper()}": value for role in ("AUTHOR", "COMMITTER") for key, value in AUTHOR.items()}


class BusyError(Exception):
    """Another process holds the lock."""


@contextlib.contextmanager
def locked(file: Path, wait: float) -> Iterator[int]:
    """Hold a lock that the operating system releases when this process and those that inherit it have ended, however they end.

    Args:
        file: The file to lock; created if missing.
        wait: Seconds to wait for another process that holds it.

    Yields:
        The file descriptor that holds the lock.

    Raises:
        BusyError: Another process still holds it after ``wait`` seconds.
    """
    until = time.monotonic() + wait
    while True:
        with file.open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise BusyError(f"{file} is held by another process.") from None
                time.sleep(0.2)
                continue
            if _is_open_as(file, handle.fileno()):  # else its former holder removed it: lock the new file
                yield handle.fileno()
                return


def _is_open_as(file: Path, descriptor: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    return False
