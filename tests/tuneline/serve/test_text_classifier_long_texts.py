"""Texts that are longer than the model: an exported model reads what its training read."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.exported_pipeline import published_pipeline
from tuneline.core.stage.tables import SplitReader
from tuneline.model.tokens.tokenized_splits import TokenizedSplit
from tuneline.serve.text_classifier import TextClassifier


@pytest.fixture(scope="module", params=["windows"])
def project(request, tmp_path_factory):
    return published_pipeline(tmp_path_factory, "classification", request.param)


@pytest.fixture(scope="module")
def deployed(project):
    return TextClassifier.load(project / "models/onnx", threads=1)


def raw_rows(project):
    raw = pq.read_table(project / "data/raw/test.parquet")
    return list(zip(raw["subject"].to_pylist(), raw["body"].to_pylist(), strict=True))


def test_tokenized_texts_are_those_of_the_split(project, deployed):
    rows = deployed.encode(raw_rows(project))
    split = TokenizedSplit.read(SplitReader.open(project / "data/tokenized", "test", "tokenize"))
    assert rows.offsets.tolist() == split.offsets.tolist()
    for name in ("input_ids", "token_type_ids"):
        assert rows.values[name].tolist() == split.values[name].tolist()
    if split.windows is not None:
        assert rows.window_counts.max() == 2
        assert rows.windows.offsets.tolist() == split.windows.offsets.tolist()


@pytest.mark.parametrize("batch_size", [4])
def test_predictions_of_texts_are_those_that_were_evaluated_and_compared(project, deployed, batch_size):
    evaluated = np.stack(pq.read_table(project / "reports/predictions.parquet")["logits"].to_numpy())
    logits = deployed.logits(deployed.encode(raw_rows(project)), batch_size)
    np.testing.assert_allclose(logits, evaluated, atol=1e-3)
