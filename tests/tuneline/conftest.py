"""Projects as the line leaves them."""

import pytest

from tests.tuneline.made import Made


@pytest.fixture
def made(tmp_path, monkeypatch) -> Made:
    """A classifier of three classes, whose line ran and was committed; the working directory."""
    project = Made(tmp_path).line()
    project.commit()
    monkeypatch.chdir(tmp_path)
    return project
