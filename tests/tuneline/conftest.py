"""Projects after a run of the pipeline."""

import pytest

from tests.tuneline.finished_project import FinishedProject


@pytest.fixture
def project(tmp_path, monkeypatch) -> FinishedProject:
    """A classifier of three classes whose pipeline ran and was committed, as the working directory."""
    project = FinishedProject(tmp_path).run_pipeline()
    project.commit()
    monkeypatch.chdir(tmp_path)
    return project
