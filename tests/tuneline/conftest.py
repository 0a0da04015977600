"""Projects after a run of the pipeline."""

import pytest

from tests.tuneline.finished_project import FinishedProject


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
