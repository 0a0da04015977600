import pytest

from tests.stages.evaluate.project import write_project


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """A project with three queues. Only read it."""
    folder = tmp_path_factory.mktemp("queues")
    write_project(folder)
    return folder
