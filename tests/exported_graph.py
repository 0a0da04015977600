"""The graph of a tiny model, exported once in a session: an export takes seconds."""

import onnx
import pytest

from tests.conftest import made_once
from tests.small_pipeline import tiny_model

COLUMNS = ["input_ids", "attention_mask", "token_type_ids"]
WITH_TOKEN_TYPES = {"bert", "albert", "electra", "minilm"}


def columns_of(family: str) -> list[str]:
    """Return the inputs that the models of an architecture read."""
    return COLUMNS if family in WITH_TOKEN_TYPES else COLUMNS[:2]


def exported_graph(factory: pytest.TempPathFactory, family: str) -> onnx.ModelProto:
    """Return a graph of ``tiny_model(family, 3)``, which the caller may change."""
    from tuneline.onnx.graph import to_onnx

    def make(folder):
        folder.mkdir()
        onnx.save(to_onnx(tiny_model(family, 3), columns_of(family), opset=20), folder / "model.onnx")

    return onnx.load(made_once(factory, f"graph-{family}", make) / "model.onnx")
