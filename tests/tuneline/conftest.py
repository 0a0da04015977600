"""Projects after a run of the pipeline, and a repository of two quick stages."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import made_once
from tests.tuneline.finished_project import FinishedProject
from tests.tuneline.two_stages import make_repository


@pytest.fixture
def project(tmp_path, monkeypatch) -> FinishedProject:
    """A classifier of three classes whose pipeline ran and was committed, as the working directory."""
    project = FinishedProject(tmp_path).run_pipeline()
    project.commit()
    monkeypatch.chdir(tmp_path)
    return project


@pytest.fixture(scope="session")
def template(tmp_path_factory, homes) -> Path:
    """A repository of two stages, which each test copies."""
    return made_once(tmp_path_factory, "experiments", make_repository)


@pytest.fixture
def repository(template, tmp_path) -> Path:
    """A copy of it."""
    shutil.copytree(template, tmp_path / "repo", symlinks=True)
    return tmp_path / "repo"
