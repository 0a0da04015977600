"""What git and DVC ignore. DVC does not look for ``.dvc`` files in folders that git ignores."""

import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.dvc_files import init_dvc


@pytest.mark.parametrize("folder", ["data/source", pytest.param("models/source", marks=pytest.mark.slow)])
def test_versioned_sources_are_restored_in_a_clone(tmp_path, folder):
    """``dvc checkout`` and ``dvc pull`` without a target, as the flows call them, must find what ``dvc add``
    has versioned."""

    def run(*command: str) -> str:
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    run("git", "init", "--quiet")
    init_dvc(tmp_path)
    shutil.copyfile(ROOT / ".gitignore", tmp_path / ".gitignore")
    mine = tmp_path / folder / "mine"
    mine.mkdir(parents=True)
    (mine / "file").write_text("content")
    run(sys.executable, "-m", "dvc", "add", "--quiet", f"{folder}/mine")
    run("git", "add", "--all")
    assert set(run("git", "ls-files", folder).splitlines()) == {f"{folder}/mine.dvc"}
    shutil.rmtree(mine)
    run(sys.executable, "-m", "dvc", "checkout", "--quiet")
    assert (mine / "file").read_text() == "content"


@pytest.mark.parametrize("ignored", [("git", "check-ignore"), (sys.executable, "-m", "dvc", "check-ignore")])
def test_scored_files_are_neither_committed_nor_versioned(tmp_path, ignored):
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    init_dvc(tmp_path)
    for name in (".gitignore", ".dvcignore"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    files = [f"data/{folder}/tickets.csv" for folder in ("inbox", "scored", "archive")]
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    done = subprocess.run([*ignored, *files], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == files
