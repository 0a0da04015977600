"""Clones of one origin, each of which a machine promotes models in: always the same small one, so a commit is
a result."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.dvc_files import ARTIFACT, add_model
from tuneline.core.repository.registry import Version
from tuneline.operations.promotion.registry import Registry
from tuneline.operations.runs.repository import Repository


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return what it prints."""
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@dataclass
class Machine:
    """A clone, and what its user does there.

    Attributes:
        root: The clone.
        registry: Its registry of the artifact ``onnx``.
    """

    root: Path
    registry: Registry

    def commit(self) -> str:
        """Commit the result of a run, which nothing but a promotion names."""
        tree = git(self.root, "rev-parse", "HEAD^{tree}")
        return git(
            self.root,
            "commit-tree",
            tree,
            "-p",
            "HEAD",
            "-m",
            f"A run in {self.root.name} {os.urandom(4).hex()}",
        )

    def promote(self, commit: str | None = None, *, push: bool = True) -> Version:
        """Promote the result of a run, as the flow does."""
        with self.registry.locked(wait=10):
            if push:
                self.registry.fetch()
            return self.registry.promote(commit or self.commit(), "It is better.", push=push)

    def fetch(self) -> None:
        """Fetch from origin, as the flows do."""
        with self.registry.locked(wait=10):
            self.registry.fetch()

    @property
    def production(self) -> str | None:
        """Commit of the version in production."""
        version = self.registry.production()
        return version.commit if version else None

    @property
    def names(self) -> dict[str, str]:
        """Tag objects by name."""
        return {tag.name: tag.object for tag in self.registry.tags().tags}


def origin(folder: Path) -> Path:
    """Make the repository that clones push to, with one commit."""
    git(folder, "init", "--quiet", "--initial-branch=main", "first")
    first = folder / "first"
    (first / "dvc.yaml").write_text(ARTIFACT)
    add_model(first)
    git(first, "add", "dvc.yaml", "dvc.lock")
    git(first, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "--quiet", "--message=Start")
    git(folder, "clone", "--quiet", "--bare", "first", "origin.git")
    shutil.rmtree(first)
    return folder / "origin.git"


def clone(folder: Path, name: str) -> Machine:
    """Clone ``origin.git`` of a folder."""
    git(folder, "clone", "--quiet", "origin.git", name)
    git(folder / name, "config", "user.name", name)
    git(folder / name, "config", "user.email", f"{name}@localhost")
    add_model(folder / name)  # its cache: the commits have dvc.lock
    return Machine(folder / name, Registry(Repository(folder / name)))
