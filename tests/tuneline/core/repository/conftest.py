"""A clone with data in DVC that lacks the last commit of its origin."""

import shutil
import subprocess
import sys

import pytest

from tests.dvc_files import add_remote, init_dvc

DATA = "data/source/tickets"
FILE = f"{DATA}.dvc"


def sh(*command, cwd, check=True):
    return subprocess.run([*map(str, command)], cwd=cwd, check=check, capture_output=True, text=True)


def dvc(*arguments, cwd):
    return sh(sys.executable, "-m", "dvc", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A clone with data in DVC, to which a colleague has pushed a row that it has not pulled yet."""
    folder = tmp_path_factory.mktemp("clones")
    colleague, clone = folder / "colleague", folder / "clone"
    (colleague / DATA).mkdir(parents=True)
    sh("git", "init", "--quiet", "--initial-branch=main", cwd=colleague)
    init_dvc(colleague)
    add_remote(colleague, folder / "store")
    (colleague / "params.yaml").write_text("seed: 1\n")
    stage = (
        f"stages:\n  download:\n    cmd: wc -l {DATA}/all.csv > rows\n    deps: [{DATA}]\n    outs: [rows]\n"
    )
    (colleague / "dvc.yaml").write_text(stage)
    commit(colleague, "text,label\na,x\n")
    sh("git", "clone", "--quiet", colleague, clone, cwd=folder)
    dvc("pull", "--quiet", FILE, cwd=clone)
    commit(colleague, "text,label\na,x\nb,y\n")
    return clone


@pytest.fixture
def clone(made, tmp_path):
    """A copy of it."""
    return shutil.copytree(made, tmp_path / "clone")


def commit(clone, content):
    """Commit data, and push it to the DVC remote."""
    (clone / DATA / "all.csv").write_text(content)
    dvc("add", "--quiet", DATA, cwd=clone)
    sh("git", "add", "--all", cwd=clone)
    sh("git", "commit", "--quiet", "--message=Rows", cwd=clone)
    dvc("push", "--quiet", FILE, cwd=clone)


def pull(clone):
    sh("git", "pull", "--quiet", cwd=clone)
