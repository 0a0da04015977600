"""int8 with a scale for each token: the same bits in every batch, close to fp32, safe on every processor."""

import json

import numpy as np
import onnx
import pytest

from stages.compare.saturation import check_saturation
from stages.export.graph import save_model, to_onnx
from stages.export.int8 import FROZEN_HEAD, session_of, to_dynamic_int8
from stages.export.int8_search import Fp32Model, int8_models, to_int8
from stages.export.per_token_int8 import to_per_token_int8
from tests.exported_graph import COLUMNS
from tests.params import params
from tests.small_pipeline import tiny_model
from tests.stages.export.graphs import batch_of, logits_of
from tests.stages.export.test_int8 import FAMILY_PARAMS

TOKENS = 24
BATCHES = (1, 2, 7, 32)


def batch_around(row, size, position):
    """Return a batch of random rows of ``TOKENS`` tokens with one given row among them."""
    batch = batch_of(size, TOKENS, padding=0)
    for name, values in row.items():
        batch[name][position] = values
    return batch


def bits_by_batch(graph, columns=COLUMNS):
    """Return the bytes of the logits of one row in batches of different neighbours."""
    session = session_of(graph)
    row = {name: values[3] for name, values in batch_of(9, TOKENS, padding=0).items()}
    bits = set()
    for size in BATCHES:
        for position in {0, size // 2, size - 1}:
            batch = batch_around(row, size, position)
            bits.add(logits_of(session, {name: batch[name] for name in columns})[position].tobytes())
    return bits


def test_row_has_the_same_bits_in_every_batch(fp32):
    """Dynamic quantization gives it others, so the neighbours are different enough."""
    assert len(bits_by_batch(to_dynamic_int8(fp32, reduce_range=True))) > 1
    assert len(bits_by_batch(to_per_token_int8(fp32, reduce_range=True))) == 1


def test_row_has_the_same_bits_with_layers_in_fp32(fp32, rows):
    """Every model that the search can take has them."""
    options = params(export={"int8": {"batch_invariant": True, "max_fp32": 0.4}}).export.int8
    tried = list(int8_models(fp32, options, rows, Fp32Model.of(fp32, rows, 256)))
    assert [len(candidate.fp32_layers) for candidate in tried] == [0, 1, 2, 3]
    for candidate in tried:
        assert len(bits_by_batch(candidate.graph)) == 1


@pytest.mark.parametrize("family", FAMILY_PARAMS)
def test_logits_stay_close_to_fp32(family, rows):
    """Also where layers share weights (albert), or inputs of products have three axes."""
    model = to_onnx(tiny_model(family, 3), ["input_ids", "attention_mask"], opset=20)
    reference = Fp32Model.of(model, rows, 256)
    logits = reference.run(to_per_token_int8(model, reduce_range=True))
    assert reference.difference(logits) < 0.05 * np.abs(reference.logits).max()


def test_products_do_not_saturate_on_any_processor(fp32, tmp_path):
    path = tmp_path / "model.onnx"
    save_model(to_per_token_int8(fp32, reduce_range=True), path)
    saturation = check_saturation(path, [])
    assert not saturation.possible
    assert saturation.largest_sum > 0  # it has integer products


def test_frozen_head_stays_in_fp32():
    frozen = """
    <ir_version: 10, opset_import: ["" : 20]>
    frozen (float[n,2] x) => (float[n,2] z)
    <float[2,2] layer = {1, 2, 3, 4}, float[2,2] head = {1, 2, 3, 4}>
    {
      y = MatMul(x, layer)
      z = MatMul(y, head)
    }
    """
    model = onnx.parser.parse_model(frozen)
    for number, node in enumerate(model.graph.node):
        node.name = f"layer_{number}"
    model.graph.initializer[1].name = FROZEN_HEAD
    model.graph.node[1].input[1] = FROZEN_HEAD
    quantized = to_per_token_int8(model, reduce_range=True)
    tensors = {tensor.name for tensor in quantized.graph.initializer}
    assert FROZEN_HEAD in tensors
    assert "layer" not in tensors


def test_token_of_zeros_gives_zeros():
    """It has no range, and a scale of 0 would make it NaN."""
    product = """
    <ir_version: 10, opset_import: ["" : 20]>
    product (float[n,2] x) => (float[n,2] y)
    <float[2,2] weight = {1, 2, 3, 4}>
    {
      y = MatMul(x, weight)
    }
    """
    model = onnx.parser.parse_model(product)
    model.graph.node[0].name = "layer"
    session = session_of(to_per_token_int8(model, reduce_range=True))
    (y,) = session.run(["y"], {"x": np.zeros((3, 2), np.float32)})
    assert (y == 0).all()


def test_export_says_the_method(fp32, rows):
    options = params(export={"int8": {"batch_invariant": True}})
    _, record = to_int8(fp32, options, rows)
    assert record["method"] == "per_token"
    assert json.dumps(record)
