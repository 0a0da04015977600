"""The search for an int8 model: its rows, the models that it tries, and which one it takes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from stages.export.fp32_layers import linear_layers
from stages.export.int8_search import (
    Fp32Model,
    Int8Model,
    MeasuredInt8,
    int8_models,
    search,
    to_int8,
)
from tests.params import params
from tuneline.core.tables import SplitReader
from tuneline.tasks import Multilabel

MISSING = SplitReader(Path("no/such"), "file", (Path("no/such/file.parquet"),))


def search_params(compare=None, **int8):
    return params(export={"int8": int8}, compare={"int8": compare or {}})


def test_mean_difference_of_nan_is_infinite(fp32, rows):
    reference = Fp32Model.of(fp32, rows, 256)
    assert reference.difference(reference.logits + 2) == pytest.approx(2)
    assert reference.difference(np.full_like(reference.logits, np.nan)) == float("inf")


def ids(batches):
    return [batch["input_ids"].tolist() for batch in batches]


def test_dynamic_quantization_reads_no_data(fp32, rows):
    _, quantization = to_int8(
        fp32, search_params(method="dynamic"), replace(rows, train=MISSING, validation=MISSING)
    )
    assert quantization == {"method": "dynamic", "weight_bits": 7}


@pytest.mark.parametrize("method", ["static", "smoothed"])
def test_named_method_does_not_read_the_validation_split(fp32, rows, method):
    _, quantization = to_int8(
        fp32,
        search_params(method=method, calibration_rows=8),
        replace(rows, validation=MISSING),
    )
    assert quantization == {"method": method, "weight_bits": 7}


def test_search_takes_the_first_model_that_agrees(fp32, rows):
    measured = search(fp32, search_params(search_models=6).export.int8, rows, goal=0.0)
    assert measured.candidate.method == "smoothed"
    assert not measured.candidate.fp32_layers


def test_search_goal_is_halfway_between_the_tolerance_and_one(fp32, rows):
    """A tolerance of 1 is a goal that a tiny model reaches, which agrees on all rows."""
    _, quantization = to_int8(fp32, search_params({"min_agreement": 1.0}), rows)
    assert quantization["mean_abs_diff_on_validation"].keys() == {"smoothed"}
    assert "fp32_layers" not in quantization


def test_search_keeps_no_layer_that_does_not_raise_the_agreement(fp32, rows):
    """A goal beyond reach: layers in fp32 make the logits closer, and no prediction."""
    options = search_params(max_fp32=0.4).export.int8
    reference = Fp32Model.of(fp32, rows, 256)
    differences = [
        MeasuredInt8.of(model, reference).difference for model in int8_models(fp32, options, rows, reference)
    ]
    assert min(differences) < differences[0]

    assert not search(fp32, options, rows, goal=1.01).candidate.fp32_layers


@pytest.mark.parametrize(("gained", "lost", "is_better"), [(10, 1, True), (4, 1, False), (0, 0, False)])
def test_model_agrees_better_where_the_gain_is_beyond_noise(gained, lost, is_better):
    first, second = np.ones(200), np.ones(200)
    first[:gained] = 0
    second[100 : 100 + lost] = 0
    candidate = Int8Model("smoothed", onnx.ModelProto())
    better = MeasuredInt8(candidate, second, 0.1).agrees_better(MeasuredInt8(candidate, first, 0.1))
    assert better == is_better


def test_agreement_is_of_the_thresholds_of_the_trained_model(fp32, rows):
    """Logits of 2 and 3 are the same prediction at 0.5, and not at a threshold between them."""
    labels = Multilabel(("a", "b", "c"))
    decisions = {"thresholds": dict.fromkeys(labels.names, 0.92), "at_least_one": False}
    for task, agreement in ((labels, 1), (labels.with_decisions(decisions), 0)):
        measured = Fp32Model.of(fp32, replace(rows, task=task), 256)
        measured = replace(measured, logits=np.full_like(measured.logits, 3))
        assert measured.agreements(np.full_like(measured.logits, 2)).mean() == agreement


def test_rows_with_nan_logits_do_not_agree(fp32, rows):
    """The largest of NaNs is the first one, so they would be the first class."""
    reference = Fp32Model.of(fp32, rows, 256)
    reference = replace(reference, logits=np.zeros_like(reference.logits))
    logits = np.zeros_like(reference.logits)
    logits[1] = np.nan
    assert reference.agreements(logits).tolist() == [1, 0] + [1] * 28


def test_search_tries_no_more_models_than_allowed(fp32, rows, capsys):
    options = search_params(search_models=2, max_fp32=0.4).export.int8
    measured = search(fp32, options, rows, goal=1.01)
    assert len(measured.candidate.fp32_layers) <= 1
    assert "no int8 model of 2" in capsys.readouterr().out


def test_search_measures_on_as_many_rows_as_allowed(fp32, rows, capsys):
    search(fp32, search_params(search_models=1, search_rows=7).export.int8, rows, goal=1.01)
    assert "of 7 validation rows" in capsys.readouterr().out


def test_candidates_keep_more_and_more_layers_within_the_allowed_weights(fp32, rows):
    options = search_params(max_fp32=0.4).export.int8
    reference = Fp32Model.of(fp32, rows, 256)
    tried = list(int8_models(fp32, options, rows, reference))
    sizes = linear_layers(fp32)
    counts = [len(candidate.fp32_layers) for candidate in tried]
    assert counts == [0, 1, 2, 3, 0]
    assert [candidate.method for candidate in tried] == ["smoothed"] * 4 + ["dynamic"]
    kept = tried[3].fp32_layers
    assert sum(sizes[name] for name in kept) <= 0.4 * sum(sizes.values())
    assert {node.name for node in tried[3].graph.graph.node if node.op_type == "MatMul"} >= set(kept)


def test_candidates_without_allowed_weights_have_no_layer_in_fp32(fp32, rows):
    options = search_params(max_fp32=0.0).export.int8
    tried = int8_models(fp32, options, rows, Fp32Model.of(fp32, rows, 256))
    assert [candidate.fp32_layers for candidate in tried] == [(), ()]


def test_calibration_rows_are_sampled_from_train_with_the_seed(rows):
    drawn = ids(rows.calibration(20))
    assert sum(map(len, drawn)) == 20
    assert drawn == ids(rows.calibration(20))
    assert drawn != ids(replace(rows, seed=2).calibration(20))


def test_calibration_uses_every_row_of_a_small_split(rows):
    assert sum(map(len, ids(rows.calibration(10_000)))) == 60
    assert len(rows.selection(256)) == 30


def test_selection_reads_a_limited_number_of_rows(rows):
    chosen = rows.selection(7)
    assert len(chosen) == 7
    assert chosen.offsets[-1] == sum(chosen.lengths) == len(chosen.values["input_ids"])
    assert np.array_equal(chosen.labels, rows.selection(7).labels)
