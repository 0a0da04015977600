"""One small exported model and one small pipeline for all tests of the stage."""

from pathlib import Path

import onnx
import pytest

from tests.exported_graph import exported_graph
from tests.small_pipeline import write_pipeline
from tuneline.core.stage.tables import SplitReader
from tuneline.model.tokens.batches import Batch, length_sorted_batches
from tuneline.model.tokens.tokenized_splits import TokenizedSplit


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


@pytest.fixture(scope="session")
def split(pipeline: Path) -> TokenizedSplit:
    """The rows of the train split of ``pipeline``."""
    return TokenizedSplit.read(SplitReader.open(pipeline / "data/tokenized", "train", "tokenize"))


@pytest.fixture(scope="session")
def batches(split: TokenizedSplit) -> list[Batch]:
    """Padded batches of these rows."""
    return [split.pad(rows, 0) for rows in length_sorted_batches(split.lengths, 16)]
