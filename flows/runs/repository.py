"""The git repository that runs are made from."""

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tuneline.repository.worktrees import GitError, run_git
from tuneline.runtime.terminal import say
from tuneline.settings import load_settings

_TEMPORARY = re.compile(r"Internal Server Error|returned error: (408|429|5\d\d)")
_PERMANENT = re.compile(
    r"\[(remote )?rejected\]"
    r"|returned error: 4\d\d|Authentication failed|could not read (Username|Password)|Permission denied|Host"
    r" key verification failed"
    r"|does not appear to be a git repository|[Rr]epository .*not (found|exported)|couldn't find remote"
    r" ref|dubious ownership"
    r"|is not a git command|does not match any|certificate|remote helper|No space left|does not support"
    r"|not a git repository"
)


def is_outage(message: str) -> bool:
    """Return True if git's message says that the remote could not be reached; then a retry may succeed.

    Authentication, refused refs and wrong addresses are no outages. An unknown message is an outage.
    """
    if _TEMPORARY.search(message):
        return True
    return not _PERMANENT.search(message)


REPOSITORY_VARIABLE = "TUNELINE_REPOSITORY"
"""Environment variable with the path of the repository, if it is not the repository of the flows."""
_say_error = partial(say, error=True)
_STALLED = ("-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60")
"""Settings with which git gives up a connection over HTTP that transfers nothing for a minute."""
_LONGEST = 300.0
"""Seconds after which no retry begins: a host that drops every packet takes two minutes for each attempt."""


class UnreachableError(GitError):
    """A git remote could not be reached, in any of several attempts."""


class Worktree(NamedTuple):
    """A working tree: its folder, its commit, and its branch, which is empty if none is checked out."""

    path: Path
    head: str
    branch: str


@dataclass(frozen=True)
class Repository:
    """A clone, which a person may be working in: no method changes its working tree.

    Attributes:
        log: Function that gets messages about what a run can do without.
        patience: Seconds after which a remote counts as away, without another attempt. ``None``: it is tried
            again after the delays in ``conf/flows.yaml``.
    """

    root: Path
    log: Callable[[str], None] = field(default=_say_error, compare=False)
    patience: float | None = None

    @classmethod
    def here(cls, log: Callable[[str], None] = _say_error) -> "Repository":
        """Return the repository that ``TUNELINE_REPOSITORY`` names, else the repository of this file."""
        root = Path(os.environ.get(REPOSITORY_VARIABLE) or Path(__file__).parents[2])
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

    def transfer(self, *arguments: str) -> str:
        """Run a git command that talks to a remote: fetch, push, ls-remote.

        While the remote cannot be reached, the command is repeated after the delays in ``conf/flows.yaml``.
        Files of Git LFS are pushed before what names them: its hook does not run here.

        Raises:
            UnreachableError: The remote could not be reached in any attempt.
            GitError: git failed for another reason, which a retry does not change.
        """
        # as often as there are delays, and not for longer than _LONGEST
        attempt = 0
        started = time.monotonic()
        while True:
            try:
                if arguments[0] == "push":
                    self._push_large_files(arguments)
                return self.git(*_STALLED, *arguments, timeout=self.patience)
            except GitError as error:
                if not is_outage(str(error)):
                    raise
                delays = []
                if self.patience is None:
                    delays = load_settings(self.root).git.retry_delay_seconds
                if attempt == len(delays) or time.monotonic() - started > _LONGEST:
                    times = f"{attempt + 1} times in {time.monotonic() - started:.0f} s"
                    raise UnreachableError(f"{error}\nTried {times}.") from None
                self.log(f"{error}\nThe next attempt is in {delays[attempt]:g} s.")
            time.sleep(delays[attempt])
            attempt += 1

    def _push_large_files(self, arguments: Sequence[str]) -> None:
        """Push the files of Git LFS that the commits of a push to ``origin`` name, if this clone has any.

        Raises:
            GitError: Git LFS is not installed, or failed.
        """
        common = Path(self.git("rev-parse", "--path-format=absolute", "--git-common-dir"))
        if not (common / "lfs" / "objects").is_dir():
            return
        names = []
        for refspec in arguments[arguments.index("origin") + 1 :]:
            source = refspec.lstrip("+").partition(":")[0]
            if source and not source.startswith("-"):
                names.append(f"{source}^{{commit}}")
        if names:
            commits = self.git("rev-parse", *names).split()
            self.git("lfs", "push", "origin", *dict.fromkeys(commits), timeout=self.patience)

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

    def worktrees(self) -> list[Worktree]:
        """List the working trees."""
        entries = []
        for entry in self.git("worktree", "list", "--porcelain").split("\n\n"):
            values = {}
            for line in entry.splitlines():
                key, _, value = line.partition(" ")
                values[key] = value
            branch = values.get("branch", "").removeprefix("refs/heads/")
            entries.append(Worktree(Path(values["worktree"]), values.get("HEAD", ""), branch))
        return entries

    def commit_page(self, commit: str) -> str | None:
        """Return the address of the web page of a commit, without credentials.

        ``None`` unless ``origin`` is on a host with the usual addresses.
        """
        if not self.has_remote():
            return None
        # an address of SSH as the address of the page
        url = self.git("remote", "get-url", "origin").removesuffix("/").removesuffix(".git")
        if url.startswith("git@"):
            url = "https://" + url.removeprefix("git@").replace(":", "/", 1)
        if not url.startswith("https://"):
            return None
        host, _, path = url.removeprefix("https://").partition("/")
        return f"https://{host.rpartition('@')[2]}/{path}/commit/{commit}"

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
