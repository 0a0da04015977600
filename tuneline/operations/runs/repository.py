"""The git repository that runs are made from."""

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tuneline.core.repository.git import GitError, run_git
from tuneline.core.runtime.terminal import say

_REFUSED = re.compile(
    r"rejected\]|Authentication failed|could not read (Username|Password)|Permission denied|not found"
    r"|does not appear to be a git repository|couldn't find remote ref"
)
"""Parts of git's messages about what a retry does not change."""
RETRY_AFTER = (2.0, 10.0, 30.0, 60.0)
"""Seconds before each retry of a fetch or push while ``origin`` cannot be reached."""
REPOSITORY_VARIABLE = "TUNELINE_REPOSITORY"
"""Environment variable with the path of the repository, if it is not the current folder."""
_say_error = partial(say, error=True)
_STALLED = ("-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60")
"""Settings with which git gives up a connection over HTTP that transfers nothing for a minute."""


class UnreachableError(GitError):
    """A git remote could not be reached, in any of several attempts."""


@dataclass(frozen=True)
class Repository:
    """A clone, which a person may be working in: no method changes its working tree.

    Attributes:
        log: Function that gets messages about what a run can do without.
    """

    root: Path
    log: Callable[[str], None] = field(default=_say_error, compare=False)

    @classmethod
    def here(cls, log: Callable[[str], None] = _say_error) -> "Repository":
        """Return the repository that ``TUNELINE_REPOSITORY`` names, else the current folder."""
        root = Path(os.environ.get(REPOSITORY_VARIABLE) or ".")
        return cls(root.resolve(), log)

    @property
    def state(self) -> Path:
        """Folder of checkouts, locks and records: ignored by git, and on the file system of DVC's cache."""
        return self.root / ".dvc" / "tmp" / "flows"

    def git(
        self, *arguments: str, cwd: Path | None = None, text: str | None = None, timeout: float | None = None
    ) -> str:
        """Run git in ``cwd``, by default in the clone, and return its output; as ``run_git`` does."""
        return run_git(cwd or self.root, *arguments, text=text, timeout=timeout)

    def transfer(self, *arguments: str, patience: float | None = None) -> str:
        """Run a git command that talks to a remote: fetch, push.

        While the remote cannot be reached, the command is repeated after ``RETRY_AFTER``. With ``patience``,
        there is one attempt, of so many seconds.

        Raises:
            UnreachableError: The remote could not be reached in any attempt.
            GitError: The remote refused.
        """
        delays = list(RETRY_AFTER)
        if patience is not None:
            delays = []
        while True:
            try:
                return self.git(*_STALLED, *arguments, timeout=patience)
            except GitError as error:
                if _REFUSED.search(str(error)):
                    raise
                if not delays:
                    raise UnreachableError(str(error)) from None
                self.log(f"{error}\nThe next attempt is in {delays[0]:g} s.")
            time.sleep(delays.pop(0))

    def resolve(self, ref: str) -> str:
        """Return the commit that ``ref`` names, else a ``GitError``.

        A ref of a remote (``origin/main``) is fetched first.
        """
        remote = ref.partition("/")[0]
        if remote in self.git("remote").split():
            # Without --tags: a tag that both have and that differs would stop it.
            self.transfer("fetch", remote)
        try:
            return self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        except GitError:
            raise GitError(
                f"{ref!r} names no commit in {self.root}. Give a branch, a tag or a commit (`git branch -a`)."
            ) from None

    def has_remote(self) -> bool:
        """Return True if the repository has a git remote ``origin``."""
        return "origin" in self.git("remote").split()


def safe_name(text: str) -> str:
    """Return a name that git takes in a branch and the file system in a path.

    It has letters, digits, ``-`` and ``_``, at most 100 bytes.
    """
    name = re.sub(r"[^\w-]+", "-", text)
    shortened = name.encode()[:100].decode(errors="ignore")  # a letter that was cut is left out
    return shortened.strip("-_") or "run"
