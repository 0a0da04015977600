import pytest

from tests.exported_pipeline import published_pipeline
from tests.service import running_service


@pytest.fixture(scope="session")
def pair_folder(tmp_path_factory):
    """Models of a pair (subject, body) with three classes."""
    return published_pipeline(tmp_path_factory, "classification") / "models/onnx"


@pytest.fixture(scope="session")
def text_folder(tmp_path_factory):
    """Models of one text."""
    return published_pipeline(tmp_path_factory, "classification", columns=("body",)) / "models/onnx"


@pytest.fixture(scope="module")
def pairs(pair_folder):
    with running_service(pair_folder) as service:
        yield service


@pytest.fixture(scope="module")
def texts(text_folder):
    with running_service(text_folder) as service:
        yield service
