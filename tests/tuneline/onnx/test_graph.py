import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
import torch
from transformers.modeling_outputs import SequenceClassifierOutput

from tests.conftest import ROOT
from tests.exported_graph import COLUMNS, columns_of, exported_graph
from tests.small_pipeline import FAMILIES, tiny_model
from tests.stages.export.graphs import batch_of, logits_of, skips_padding, torch_logits
from tuneline.model.tokens.architectures import restrict_last_layer
from tuneline.onnx.graph import to_onnx

SHAPES = [(1, 1), (1, 5), (3, 17), (4, 40)]


IN_THE_SLOW_SET = {"albert", "deberta-v2", "distilbert", "electra", "minilm", "modernbert", "roberta"}
FAMILIES_AND_OUTPUTS = [
    pytest.param(
        family, outputs, marks=[pytest.mark.slow] if outputs == 1 or family in IN_THE_SLOW_SET else []
    )
    for family in FAMILIES
    for outputs in (3, 1)
]
"""A regression differs in the width of the last layer only, and tests/stages/compare/test_main.py has one."""


@pytest.mark.parametrize(("family", "outputs"), FAMILIES_AND_OUTPUTS)
def test_exported_logits_equal_torch_logits_at_any_shape(family, outputs, tmp_path_factory):
    """Its last layer computes what the classifier reads: the logits are those of the whole layer."""
    model, whole = tiny_model(family, outputs), tiny_model(family, outputs)
    restrict_last_layer(model)
    if family == "bert" and outputs == 3:
        exported = exported_graph(tmp_path_factory, family)
    else:
        exported = to_onnx(model, columns_of(family), opset=20)
    session = onnxruntime.InferenceSession(exported.SerializeToString())
    assert [value.name for value in session.get_inputs()] == columns_of(family)
    assert [value.shape for value in session.get_inputs()] == [["batch", "sequence"]] * len(
        session.get_inputs()
    )
    assert session.get_outputs()[0].shape == ["batch", outputs]
    for shape in SHAPES:
        batch = batch_of(*shape, padding=model.config.pad_token_id)
        np.testing.assert_allclose(
            logits_of(session, batch), torch_logits(whole, batch, columns_of(family)), atol=2e-6
        )
    assert skips_padding(exported)


@pytest.mark.parametrize("opset", [18, pytest.param(23, marks=pytest.mark.slow)])
def test_graph_has_the_requested_opset(opset):
    model = tiny_model("bert", 2)
    exported = to_onnx(model, COLUMNS, opset)
    assert {entry.domain: entry.version for entry in exported.opset_import} == {"": opset}
    batch = batch_of(3, 9, padding=0)
    session = onnxruntime.InferenceSession(exported.SerializeToString())
    np.testing.assert_allclose(logits_of(session, batch), torch_logits(model, batch, COLUMNS), atol=2e-6)


@pytest.mark.slow
def test_graph_of_the_same_weights_is_identical_in_another_process(fp32, tmp_path):
    """Names in the graph must not depend on the order of a set or on memory addresses."""
    code = (
        "import sys; from pathlib import Path; from tests.small_pipeline import tiny_model; from"
        f" tuneline.onnx.graph import to_onnx;model = to_onnx(tiny_model('bert', 3), {COLUMNS},"
        " 20);Path(sys.argv[1]).write_bytes(model.SerializeToString(deterministic=True))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "model.onnx")]
    # torch draws other random weights with other instructions.
    instructions = {
        name: os.environ[name] for name in ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA") if name in os.environ
    }
    environment = {"PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1", "HOME": str(tmp_path), **instructions}
    subprocess.run(command, check=True, cwd=ROOT, env=environment)
    assert (tmp_path / "model.onnx").read_bytes() == fp32.SerializeToString(deterministic=True)


class ReadsPadding(torch.nn.Module):
    """Sums over all positions of a row, padding included, so the values computed for padding matter."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.config = SimpleNamespace(pad_token_id=0, vocab_size=120)
        self.embeddings, self.dense = torch.nn.Embedding(120, 16), torch.nn.Linear(16, 3)

    def forward(self, input_ids, attention_mask):
        hidden = self.dense(self.embeddings(input_ids)) + attention_mask[:, :, None]
        return SequenceClassifierOutput(
            logits=torch.tanh(self.dense(torch.nn.functional.pad(hidden, (0, 13)))).sum(dim=1)
        )


def test_model_that_reads_padding_is_not_rewritten():
    """A rewriting that would change the logits is not used."""
    model = ReadsPadding().eval()
    exported = to_onnx(model, COLUMNS[:2], opset=20)
    assert not skips_padding(exported)
    batch = batch_of(3, 9, padding=0)
    session = onnxruntime.InferenceSession(exported.SerializeToString())
    np.testing.assert_allclose(logits_of(session, batch), torch_logits(model, batch, COLUMNS[:2]), atol=2e-5)
