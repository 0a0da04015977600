"""The git repository that runs are made of, and what git and DVC know about it."""

import contextlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PLACE = "TUNELINE_REPOSITORY"
"""Environment variable that names the repository, where it is not the one that holds the flows."""
AUTHOR = {"name": "Tuneline", "email": "tuneline@localhost"}
"""Who commits and tags, where git knows nobody."""


class GitError(Exception):
    """git refused; the message is its own."""


@dataclass(frozen=True)
class Repository:
    """A clone, bare of any assumption about who works in it: nothing here touches its working tree.

    Attributes:
        root: The folder that holds ``.git`` and ``.dvc``.
    """

    root: Path

    @classmethod
    def here(cls) -> "Repository":
        """The one that ``TUNELINE_REPOSITORY`` names, else the one that holds this file."""
        return cls(Path(os.environ.get(PLACE) or Path(__file__).parents[2]).resolve())

    @property
    def state(self) -> Path:
        """Where runs live: beside DVC's own temporary experiments, on the file system of its cache, ignored by git."""
        return self.root / ".dvc" / "tmp" / "flows"

    def git(self, *arguments: str, cwd: Path | None = None, text: str | None = None) -> str:
        """Runs git and returns what it printed.

        Args:
            arguments: As on the command line.
            cwd: A checkout of the repository; its root by default.
            text: Standard input.

        Raises:
            GitError: It failed.
        """
        # Nobody sits there to type a password; a hook of the person's would run in a checkout that is not theirs.
        env = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **({} if self.has_author else _author())}
        command = ["git", "-c", "core.hooksPath=/dev/null", *arguments]
        done = subprocess.run(command, cwd=cwd or self.root, env=env, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise GitError(f"git {' '.join(arguments)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout.strip()

    @property
    def has_author(self) -> bool:
        """Whether git knows who commits here."""
        probe = subprocess.run(["git", "config", "user.email"], cwd=self.root, capture_output=True, check=False)
        return probe.returncode == 0 or "GIT_AUTHOR_EMAIL" in os.environ

    def resolve(self, ref: str) -> str:
        """The commit that ``ref`` names. A ref of a remote (``origin/main``) is fetched first.

        Raises:
            GitError: It names none, or the remote cannot be reached.
        """
        remote = ref.partition("/")[0]
        if remote in self.git("remote").split():
            self.git("fetch", "--quiet", "--tags", remote)
        try:
            return self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        except GitError:
            raise GitError(f"{ref!r} names no commit in {self.root}. Give a branch, a tag or a commit (`git branch -a`).") from None

    def has_remote(self, name: str = "origin") -> bool:
        """Whether there is somewhere to push commits and tags to."""
        return name in self.git("remote").split()

    def show(self, commit: str, path: str) -> str | None:
        """A file as it stands in a commit; ``None`` when it is not there."""
        with contextlib.suppress(GitError):
            return self.git("show", f"{commit}:{path}")
        return None


def dvc_config(root: Path) -> dict[str, Any]:
    """DVC's settings in a checkout, all levels merged, relative addresses resolved."""
    from dvc.config import Config  # a fifth of a second, for those who need it

    return dict(Config(dvc_dir=str(root / ".dvc")))


def _author() -> dict[str, str]:
    return {f"GIT_{role}_{key.upper()}": value for role in ("AUTHOR", "COMMITTER") for key, value in AUTHOR.items()}
