"""Limits of an exported model: exact for fp32, and decided with their interval for rounded models."""

import numpy as np
import pytest

from tests.params import params
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.table import METRIC_TABLE
from tuneline.model.tasks import Classification
from tuneline.onnx.comparison import compare_logits, judge_comparison

CLASSES = Classification(("a", "b"))
A, B = [2, 0], [0, 2]
TRAINED = np.array([A, A, B, B], dtype=np.float32)
REFERENCE = Predictions.of_logits(
    np.array([0, 0, 1, 0]), TRAINED, CLASSES
)  # the trained model is wrong in row 3


def judged(exported, precision="fp32", reference=REFERENCE, **limits):
    logits = np.asarray(exported, dtype=np.float32)
    comparison = compare_logits(reference, logits, METRIC_TABLE["accuracy"], 0.25, seed=0)
    tolerance = params(compare={precision: limits}).compare.tolerance(precision)
    return judge_comparison(comparison, tolerance)


def flipping(flips, rows):
    """Judge a rounded model that is wrong in some rows, where the trained one is always right, with the
    default limits of int8."""
    logits = np.tile(np.array(A, dtype=np.float32), (rows, 1))
    exported = logits.copy()
    exported[:flips] = B
    reference = Predictions.of_logits(np.zeros(rows, dtype=np.int64), logits, CLASSES)
    return judged(exported, "int8", reference, min_agreement=0.97, max_metric_drop=0.02)


def test_each_exceeded_limit_of_fp32_is_a_violation_that_names_rows():
    exported = TRAINED.copy()
    exported[1] = [0, 1]
    violations, _ = judged(exported, max_abs_diff=0.5, min_agreement=0.9, max_metric_drop=0.1)
    assert violations == [
        "a logit of row 1 differs by 2, more than max_abs_diff 0.5",
        "agreement is 0.7500 on 4 rows, less than min_agreement 0.9: it flips row 1",
        "accuracy drops by 0.2500 on 4 rows, more than max_metric_drop 0.1",
    ]


def test_value_equal_to_its_limit_passes():
    exported = TRAINED.copy()
    exported[1] = [0, 2]
    assert judged(exported, max_abs_diff=2, min_agreement=0.75, max_metric_drop=0.25) == ([], [])


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_logits_that_are_not_finite_violate_any_limit(precision):
    exported = TRAINED.copy()
    exported[0, 1] = np.nan
    violations, _ = judged(exported, precision, min_agreement=0.0, max_metric_drop=1.0)
    assert violations == ["no finite logits for row 0"]


@pytest.mark.parametrize(
    ("flips", "rows"),
    [
        (2, 1_000),
    ],
)
def test_rounded_model_passes_if_its_interval_is_within_the_limits(flips, rows):
    assert flipping(flips, rows) == ([], [])


@pytest.mark.parametrize(("flips", "rows"), [(0, 20), (30, 1_000)])
def test_rounded_model_is_in_doubt_if_a_limit_is_within_its_interval(flips, rows):
    violations, unclear = flipping(flips, rows)
    assert violations == []
    assert f"on {rows:,} rows (95 % interval " in unclear[0]
    assert unclear[0].endswith(", and min_agreement is 0.97")


@pytest.mark.parametrize(("flips", "rows"), [(60, 1_000)])
def test_rounded_model_fails_if_its_interval_is_beyond_a_limit(flips, rows):
    (agreement, drop), _ = flipping(flips, rows)
    assert agreement.startswith(f"agreement is {1 - flips / rows:.4f} on {rows:,} rows (95 % interval ")
    assert ", less than min_agreement 0.97: it flips rows 0, 1, 2," in agreement
    assert drop.startswith(f"accuracy drops by {flips / rows:.4f} on {rows:,} rows (95 % interval ")
