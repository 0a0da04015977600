"""One small export for all tests of what is made from it."""

from pathlib import Path

import onnx
import pytest

from stages.export.graph import to_onnx
from tests.small_pipeline import tiny_model, write_pipeline


@pytest.fixture(scope="session")
def fp32() -> onnx.ModelProto:
    """A tiny BERT with the classes and the vocabulary of ``line``."""
    return to_onnx(tiny_model("bert", 3), ["input_ids", "attention_mask", "token_type_ids"], opset=20)


@pytest.fixture(scope="session")
def line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the line up to ``evaluate``."""
    folder = tmp_path_factory.mktemp("line")
    write_pipeline(folder)
    return folder
