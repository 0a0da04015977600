import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tuneline.core.params.loading import read_yaml
from tuneline.core.runtime.errors import StageError
from tuneline.operations.project import create_project, pipeline_of_project, upgrade_project

OWN = {"README.md", "engine.yaml", "pyproject.toml", "dvc.yaml"}
"""Files that differ from those at the top of this repository."""


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(folder: Path, message: str) -> None:
    git(folder, "commit", "--quiet", "--all", "--message", message)


@pytest.fixture
def project(tmp_path):
    create_project(tmp_path / "tickets")
    return tmp_path / "tickets"


@pytest.fixture
def other(tmp_path):
    """Another engine: a copy of this checkout, which a test changes."""
    folder = tmp_path / "engine"
    files = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\x00")
    for name in filter(None, files):
        if name.startswith(("tests/", "docs/", "benchmarks/")) and name != "tests/test_project.py":
            continue
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def upgrade(project: Path, engine: Path) -> subprocess.CompletedProcess[str]:
    """Run ``tuneline upgrade`` of an engine."""
    command = [sys.executable, "-c", "from tuneline.cli import app; app()", "upgrade"]
    env = {**os.environ, "PYTHONPATH": str(engine)}
    return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)


def test_new_project_has_the_files_of_this_repository(project):
    files = set(git(project, "ls-files").splitlines())
    assert {"params.yaml", "stages/train.py", "flows/train.py", "conf/flows.yaml", "Makefile"} <= files - OWN
    for name in files - OWN:
        assert (project / name).read_bytes() == (ROOT / name).read_bytes(), name
        assert os.access(project / name, os.X_OK) == os.access(ROOT / name, os.X_OK), name
    assert git(project, "status", "--porcelain") == ""
    assert "site_cache_dir" in (project / ".dvc/config.local").read_text()


def test_pipeline_of_a_project_has_hashes_in_place_of_folders_of_the_engine(project):
    here, there = (read_yaml(folder / "dvc.yaml")["stages"] for folder in (ROOT, project))
    for name, stage in here.items():
        stage["deps"] = [dep for dep in stage["deps"] if not dep.startswith("tuneline/")]
        stage.setdefault("params", []).append({"engine.yaml": [f"stages.{name}"]})
    assert here == there
    assert list(read_yaml(project / "engine.yaml")["stages"]) == list(here)


def test_pipeline_of_a_project_keeps_comments():
    text = pipeline_of_project((ROOT / "dvc.yaml").read_text())
    assert "# labels that people changed" in text


def test_new_leaves_a_folder_with_files_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StageError, match="exists"):
        create_project(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_upgrade_merges_files_adds_parameters_and_names_stages_whose_code_changed(project, other):
    # the user's changes
    replace(project / "stages/train.py", "def resource_usage", "MINE = 1\n\n\ndef resource_usage")
    replace(project / "params.yaml", "seed: 42", "seed: 7")
    (project / "own.txt").write_text("mine")
    git(project, "add", "own.txt")
    commit(project, "Change what is mine")

    # the engine's
    replace(other / "stages/train.py", "Start: ``", "Starts: ``")
    replace(other / "tuneline/training/loop.py", "import", "import this  # noqa\nimport")
    replace(other / "tuneline/rows/splits/sample.py", '"""', '"""Another docstring. ')
    (other / "stages/added.py").write_text('"""A page."""\n')
    field = '    patience: int = 3\n    """Epochs."""\n    launch: Annotated['
    replace(other / "tuneline/core/params/train.py", "    launch: Annotated[", field)
    replace(other / "params.yaml", "train:\n", "train:\n  patience: 3\n")

    done = upgrade(project, other)
    assert done.returncode == 0, done.stderr
    assert "runs again: train." in done.stdout
    assert "train.patience" in done.stdout
    page = (project / "stages/train.py").read_text()
    assert "MINE = 1" in page
    assert "Starts: ``" in page
    assert (project / "stages/added.py").exists()
    assert (project / "own.txt").exists()
    params = read_yaml(project / "params.yaml")
    assert (params["seed"], params["train"]["patience"]) == (7, 3)
    assert git(project, "status", "--porcelain") == ""

    head = git(project, "rev-parse", "HEAD")
    assert "No stage runs other code" in upgrade(project, other).stdout
    assert git(project, "rev-parse", "HEAD") == head


def test_upgrade_leaves_conflicts_to_git_and_goes_on_when_they_are_resolved(project, other):
    replace(project / "stages/report.py", "import", "import mine  # noqa\nimport")
    commit(project, "Change a page")
    replace(other / "stages/report.py", "import", "import theirs  # noqa\nimport")
    replace(other / "tuneline/page/page.py", "import", "import this  # noqa\nimport")
    before = (project / "engine.yaml").read_bytes()

    done = upgrade(project, other)
    assert done.returncode == 1
    assert "stages/report.py" in done.stderr
    assert "<<<<<<<" in (project / "stages/report.py").read_text()
    assert (project / "engine.yaml").read_bytes() == before
    assert "not committed" in upgrade(project, other).stderr

    shutil.copy(other / "stages/report.py", project / "stages/report.py")
    commit(project, "Merge")
    assert "runs again: report." in upgrade(project, other).stdout


def test_upgrade_takes_no_changed_first_commit_for_the_files_of_an_engine(project):
    """The user's edits in it would be undone."""
    replace(project / "stages/report.py", "import", "import mine  # noqa\nimport")
    git(project, "commit", "--quiet", "--all", "--amend", "--no-edit")
    with pytest.raises(StageError, match="Tuneline-Template"):
        upgrade_project(project)
    assert git(project, "status", "--porcelain") == ""


def test_upgrade_refuses_a_checkout_of_the_engine():
    with pytest.raises(StageError, match=r"engine\.yaml"):
        upgrade_project(ROOT)
