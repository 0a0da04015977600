"""A repository with the line in miniature: git, DVC, a task that is stronger and one that is weaker."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flows.repository import Repository

TOY = Path(__file__).parent / "toy"


def sh(*command: str, cwd: Path, **more) -> str:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **more.pop("env", {})}
    return subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True, text=True, **more).stdout


@pytest.fixture(scope="session")
def toy_template(tmp_path_factory, homes) -> Path:
    """Made once: initialising DVC takes a second."""
    root = tmp_path_factory.mktemp("toy") / "repo"
    shutil.copytree(TOY, root, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "gitignore").rename(root / ".gitignore")
    sh("git", "init", "--quiet", "--initial-branch=main", cwd=root)
    sh("dvc", "init", "--quiet", cwd=root)
    sh("dvc", "config", "hydra.enabled", "true", cwd=root)
    sh("dvc", "config", "core.analytics", "false", cwd=root)
    sh("git", "config", "user.email", "tests@localhost", cwd=root)
    sh("git", "config", "user.name", "Tests", cwd=root)
    sh("git", "add", "--all", cwd=root)
    sh("git", "commit", "--quiet", "--message=The line in miniature", cwd=root)
    return root


@pytest.fixture
def toy(toy_template, tmp_path, monkeypatch) -> Repository:
    """A fresh repository of the miniature line; the flows find it through the environment."""
    root = tmp_path / "repo"
    shutil.copytree(toy_template, root, symlinks=True)
    monkeypatch.setenv("TUNELINE_REPOSITORY", str(root))
    return Repository(root)
