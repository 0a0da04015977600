from pathlib import Path

import numpy as np
import pytest

from stages.export import calibration
from stages.export.calibration import Rows, make_int8
from tuneline.params.export import Int8Params

NOWHERE = Path("no/such/file.parquet")


@pytest.fixture
def rows(line):
    return Rows(line / "data/tokenized/train.parquet", line / "data/tokenized/validation.parquet", 0, seed=1)


def ids(batches):
    return [batch["input_ids"].tolist() for batch in batches]


def test_dynamic_quantization_reads_no_data(fp32):
    _, notes = make_int8(fp32, Int8Params(method="dynamic"), Rows(NOWHERE, NOWHERE, 0, seed=1))
    assert notes == {"method": "dynamic"}


def test_static_quantization_does_not_look_at_the_validation_split(fp32, rows):
    _, notes = make_int8(fp32, Int8Params(method="static", calibration_rows=8), Rows(rows.train, NOWHERE, 0, seed=1))
    assert notes == {"method": "static"}


def test_the_better_of_the_two_is_the_one_closer_to_fp32(fp32, rows, monkeypatch):
    model, notes = make_int8(fp32, Int8Params(method="best"), rows)
    differences = notes["mean_abs_diff_on_validation"]
    assert notes["method"] == min(differences, key=differences.get)
    monkeypatch.setattr(calibration, "differences_from", lambda *_: {"dynamic": 0.2, "static": 0.1})
    other, notes = make_int8(fp32, Int8Params(method="best"), rows)
    assert notes["method"] == "static"
    assert [node.op_type for node in other.graph.node] != [node.op_type for node in model.graph.node]


def test_calibration_rows_are_drawn_from_train_by_the_seed(rows):
    drawn = ids(rows.calibration(20))
    assert sum(map(len, drawn)) == 20
    assert drawn == ids(rows.calibration(20))
    assert drawn != ids(Rows(rows.train, rows.validation, 0, seed=2).calibration(20))


def test_a_small_split_is_used_whole(rows):
    assert sum(map(len, ids(rows.calibration(10_000)))) == 60
    assert len(rows.choice()) == 30


def test_the_rows_that_decide_are_few(rows, monkeypatch):
    monkeypatch.setattr(calibration, "CHOICE_ROWS", 7)
    chosen = rows.choice()
    assert len(chosen) == 7
    assert chosen.offsets[-1] == sum(chosen.lengths) == len(chosen.values["input_ids"])
    assert np.array_equal(chosen.labels, rows.choice().labels)
