import pytest

from tests.stages.evaluate.project import write_project
from tuneline.tasks import Regression


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """A project with three queues. Only read it."""
    folder = tmp_path_factory.mktemp("queues")
    write_project(folder)
    return folder


@pytest.fixture(scope="session")
def regression(tmp_path_factory):
    """A project with numbers to predict. Only read it."""
    folder = tmp_path_factory.mktemp("numbers")
    write_project(folder, Regression())
    return folder
