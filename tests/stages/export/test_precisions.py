from pathlib import Path

import numpy as np
import onnx
import pytest

from stages.export import __main__ as precisions
from stages.export.__main__ import QuantizationRows, mean_difference, to_dynamic_int8, to_fp16, to_int8, to_static_int8
from stages.export.graph import save_model, weight_bytes
from tests.params import params
from tuneline.core.tables import SplitReader
from tuneline.model.batches import TokenizedSplit, length_sorted_batches
from tuneline.onnx.session import OnnxClassifier, logits_of

MISSING = SplitReader(Path("no/such"), "file", (Path("no/such/file.parquet"),))


def int8_params(**values):
    return params(export={"int8": values}).export.int8


@pytest.fixture(scope="module")
def split(pipeline):
    return TokenizedSplit.read(SplitReader.open(pipeline / "data/tokenized", "test", "tokenize"))


def calibration(split):
    return (split.pad(rows, 0) for rows in length_sorted_batches(split.lengths, 16))


@pytest.fixture(scope="module")
def models(fp32, split):
    before = fp32.SerializeToString(deterministic=True)
    models = {
        "fp32": fp32,
        "fp16": to_fp16(fp32),
        "dynamic": to_dynamic_int8(fp32, reduce_range=True),
        "static": to_static_int8(fp32, True, calibration(split)),
    }
    assert fp32.SerializeToString(deterministic=True) == before, "a conversion must not change the fp32 model"
    return models


@pytest.fixture(scope="module")
def sessions(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {name: OnnxClassifier(save_model(model, folder / f"{name}.onnx")[0]) for name, model in models.items()}


@pytest.mark.parametrize(("precision", "fraction"), [("fp16", 0.52), ("dynamic", 0.35), ("static", 0.35)])
def test_lower_precisions_have_smaller_weights(models, precision, fraction):
    """About half for fp16 and a quarter for int8: shapes, biases and scales, not converted, matter in a tiny model."""
    assert weight_bytes(models[precision]) < fraction * weight_bytes(models["fp32"])


@pytest.mark.parametrize("precision", ["fp16", "dynamic", "static"])
def test_logits_are_float32_in_every_precision(models, precision):
    """Programs that read logits need not know the precision."""
    assert models[precision].graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


@pytest.mark.parametrize("precision", ["fp16", "dynamic", "static"])
def test_lower_precisions_keep_inputs_and_predictions(models, sessions, split, precision):
    reference, logits = logits_of(sessions["fp32"], split, 0), logits_of(sessions[precision], split, 0)
    assert sessions[precision].inputs == sessions["fp32"].inputs
    assert np.mean(reference.argmax(axis=1) == logits.argmax(axis=1)) >= 0.9
    assert mean_difference(logits, reference) < 0.1 * reference.std()


def test_fp16_logits_do_not_depend_on_padding(sessions, split):
    """The mask is a number beyond the range of fp16: it must become the largest number, not infinity."""
    whole = sessions["fp16"].logits(split.pad(np.arange(len(split)), 0))
    alone = np.concatenate([sessions["fp16"].logits(split.pad(np.array([row]), 0)) for row in range(len(split))])
    np.testing.assert_allclose(whole, alone, atol=2e-2)


def test_static_int8_logits_do_not_depend_on_the_rest_of_the_batch(sessions, split):
    whole = sessions["static"].logits(split.pad(np.arange(len(split)), 0))
    alone = np.concatenate([sessions["static"].logits(split.pad(np.array([row]), 0)) for row in range(len(split))])
    np.testing.assert_allclose(whole, alone, atol=1e-5)


def test_quantization_is_deterministic(fp32, models, split):
    assert to_dynamic_int8(fp32, True).SerializeToString(deterministic=True) == models["dynamic"].SerializeToString(deterministic=True)
    again = to_static_int8(fp32, True, calibration(split))
    assert again.SerializeToString(deterministic=True) == models["static"].SerializeToString(deterministic=True)


def test_mean_difference_of_nan_is_infinite():
    one = np.zeros((2, 3), np.float32)
    assert mean_difference(one + 2, one) == 2
    assert mean_difference(np.full_like(one, np.nan), one) == float("inf")


@pytest.fixture
def rows(pipeline):
    train, validation = (SplitReader.open(pipeline / "data/tokenized", name, "tokenize") for name in ("train", "validation"))
    return QuantizationRows(train, validation, 0, seed=1)


def ids(batches):
    return [batch["input_ids"].tolist() for batch in batches]


def test_dynamic_quantization_reads_no_data(fp32):
    _, quantization = to_int8(fp32, int8_params(method="dynamic"), QuantizationRows(MISSING, MISSING, 0, seed=1))
    assert quantization == {"method": "dynamic", "weight_bits": 7}


def test_static_quantization_does_not_read_the_validation_split(fp32, rows):
    _, quantization = to_int8(fp32, int8_params(method="static", calibration_rows=8), QuantizationRows(rows.train, MISSING, 0, seed=1))
    assert quantization == {"method": "static", "weight_bits": 7}


def test_method_best_selects_the_method_closer_to_fp32(fp32, rows, monkeypatch):
    model, quantization = to_int8(fp32, int8_params(method="best"), rows)
    differences = quantization["mean_abs_diff_on_validation"]
    assert quantization["method"] == min(differences, key=differences.get)
    monkeypatch.setattr(precisions, "logit_differences", lambda *_: {"dynamic": 0.2, "static": 0.1})
    other, quantization = to_int8(fp32, int8_params(method="best"), rows)
    assert quantization["method"] == "static"
    assert [node.op_type for node in other.graph.node] != [node.op_type for node in model.graph.node]


def test_calibration_rows_are_sampled_from_train_with_the_seed(rows):
    drawn = ids(rows.calibration(20))
    assert sum(map(len, drawn)) == 20
    assert drawn == ids(rows.calibration(20))
    assert drawn != ids(QuantizationRows(rows.train, rows.validation, 0, seed=2).calibration(20))


def test_calibration_uses_every_row_of_a_small_split(rows):
    assert sum(map(len, ids(rows.calibration(10_000)))) == 60
    assert len(rows.selection()) == 30


def test_method_selection_reads_a_limited_number_of_rows(rows, monkeypatch):
    monkeypatch.setattr(precisions, "SELECTION_ROWS", 7)
    chosen = rows.selection()
    assert len(chosen) == 7
    assert chosen.offsets[-1] == sum(chosen.lengths) == len(chosen.values["input_ids"])
    assert np.array_equal(chosen.labels, rows.selection().labels)
