"""A checkout without problems; each test breaks one thing."""

import shutil
import subprocess

import pytest

from tests.params import write_params
from tests.project import GIT_IDENTITY


@pytest.fixture
def checkout(tmp_path, root, monkeypatch):
    """Return the files that doctor reads, in a git repository without DVC, as the working directory."""
    write_params(tmp_path)
    shutil.copyfile(root / "requirements.txt", tmp_path / "requirements.txt")
    shutil.copytree(root / "conf/accelerate", tmp_path / "conf/accelerate")
    (tmp_path / "data/corrections").mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    for name, value in GIT_IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path
