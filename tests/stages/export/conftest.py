"""One small exported model and one small pipeline for all tests of the stage."""

from pathlib import Path

import onnx
import pytest

from stages.export.int8_search import QuantizationRows
from tests.exported_graph import exported_graph
from tests.small_pipeline import write_pipeline
from tuneline.core.tables import SplitReader
from tuneline.tasks.schemas import read_task


@pytest.fixture(scope="session")
def fp32(tmp_path_factory: pytest.TempPathFactory) -> onnx.ModelProto:
    """A tiny BERT with the classes and the vocabulary of ``pipeline``."""
    return exported_graph(tmp_path_factory, "bert")


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which the pipeline has run up to ``evaluate``."""
    folder = tmp_path_factory.mktemp("pipeline")
    write_pipeline(folder)
    return folder


@pytest.fixture
def rows(pipeline: Path) -> QuantizationRows:
    """The rows of ``pipeline`` for calibration and for the search."""
    train, validation = (
        SplitReader.open(pipeline / "data/tokenized", name, "tokenize") for name in ("train", "validation")
    )
    return QuantizationRows(train, validation, read_task(train.schema), 0, seed=1, close_rmse=0.25)
