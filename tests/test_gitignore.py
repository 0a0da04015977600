"""What git and DVC ignore. DVC does not look for ``.dvc`` files in folders that git ignores."""

import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.parametrize("folder", ["data/source", "models/source"])
def test_versioned_sources_are_restored_in_a_clone(tmp_path, folder):
    """``dvc checkout`` and ``dvc pull`` without a target, as the flows call them, must find what ``dvc add`` has versioned."""

    def run(*command: str) -> str:
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    run("git", "init", "--quiet")
    run(sys.executable, "-m", "dvc", "init", "--quiet")
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
@pytest.mark.parametrize("folder", ["data/inbox", "data/scored", "data/archive"])
def test_scored_files_are_neither_committed_nor_versioned(tmp_path, ignored, folder):
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run([sys.executable, "-m", "dvc", "init", "--quiet"], cwd=tmp_path, check=True)
    for name in (".gitignore", ".dvcignore"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "tickets.csv").touch()
    done = subprocess.run([*ignored, f"{folder}/tickets.csv"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == f"{folder}/tickets.csv"
