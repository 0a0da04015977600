"""A copy of this project in a temporary folder: a git and DVC repository that a test can change and run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.conftest import ROOT
from tests.params import change_params
from tuneline.testing import copy_repository


class Project:
    """A separate repository, with the commands that a user would run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def copy_to(cls, folder: Path) -> "Project":
        """Copy this repository into a new one, without its results."""
        copy_repository(ROOT, folder)
        (folder / "dvc.lock").unlink()
        shutil.rmtree(folder / "metrics")
        project = cls(folder)
        project.commit("Start")
        return project

    def run(self, *command: str, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the project. If it fails, the error contains its output."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, "PATH": path, **GIT_IDENTITY, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or not check, (
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}"
        )
        return done

    def commit(self, message: str) -> None:
        """Commit all files that git does not ignore."""
        self.run("git", "add", "--all")
        self.run("git", "commit", "--quiet", "--allow-empty", "--message", message)

    def status(self) -> str:
        """Return the output of ``git status --porcelain``; empty if nothing has changed."""
        return self.run("git", "status", "--porcelain").stdout

    def set_params(self, changes: dict[str, Any]) -> None:
        """Change values in ``params.yaml`` by dotted key."""
        change_params(self.folder, changes)

    def stages(self) -> list[str]:
        """Return the names of the stages, sorted."""
        return sorted(YAML(typ="safe", pure=True).load(self.folder / "dvc.yaml")["stages"])

    def lock(self) -> dict[str, Any]:
        """Return the stages of ``dvc.lock``."""
        return YAML(typ="safe", pure=True).load(self.folder / "dvc.lock")["stages"]


GIT_IDENTITY = {
    "GIT_AUTHOR_NAME": "Test",
    "GIT_AUTHOR_EMAIL": "test@example.org",
    "GIT_COMMITTER_NAME": "Test",
    "GIT_COMMITTER_EMAIL": "test@example.org",
}

SMALL = {
    "data.sample.rows": 800,
    "tokenize.vocab_size": 600,
    "model.config": {
        "model_type": "bert",
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 64,
    },
    "train.epochs": 1,
}
"""Parameters with which the whole pipeline runs in about a minute, most of it for imports."""
