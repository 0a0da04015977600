"""Projects after a run of the pipeline, and a repository of two quick stages."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import made_once
from tests.tuneline.finished_project import FinishedProject
from tests.tuneline.two_stages import make_repository


@pytest.fixture(scope="session")
def committed(tmp_path_factory, homes) -> FinishedProject:
    """A classifier of three classes whose pipeline ran and was committed. Copy it."""
    project = FinishedProject(tmp_path_factory.mktemp("committed")).run_pipeline()
    project.commit()
    return project


@pytest.fixture
def project(committed, tmp_path, monkeypatch) -> FinishedProject:
    """A copy of it, as the working directory."""
    monkeypatch.chdir(tmp_path)
    return committed.copied_to(tmp_path)


@pytest.fixture(scope="session")
def template(tmp_path_factory, homes) -> Path:
    """A repository of two stages, which each test copies."""
    return made_once(tmp_path_factory, "experiments", make_repository)


@pytest.fixture
def repository(template, tmp_path) -> Path:
    """A copy of it."""
    shutil.copytree(template, tmp_path / "repo", symlinks=True)
    return tmp_path / "repo"
