import numpy as np
import pytest

from stages.compare.comparison import Rows, compare_logits, faults_of, rows_named
from tuneline.files.schemas import LabelSchema
from tuneline.params.export import Tolerance

CLASSES, SCORE = LabelSchema(("a", "b")), LabelSchema(None)
TRAINED = np.array([[2, 0], [2, 0], [0, 2], [0, 2]], dtype=np.float32)
ROWS = Rows(np.array([0, 0, 1, 0]), CLASSES, TRAINED)  # the trained model is wrong in row 3


def compared(exported, rows=ROWS, close=0.05):
    return compare_logits(rows, np.asarray(exported, dtype=np.float32), close, seed=0)


def test_equal_logits_differ_in_nothing():
    metrics = compared(TRAINED).metrics
    same = {"max_abs_diff": 0, "mean_abs_diff": 0, "agreement": 1, "flips": 0}
    assert metrics.items() >= {**same, "accuracy": 0.75, "accuracy_drop": 0, "accuracy_drop_low": 0, "accuracy_drop_high": 0}.items()


def test_a_flip_counts_in_agreement_and_where_it_is_wrong_in_accuracy():
    exported = TRAINED.copy()
    exported[0] = [0, 4]  # right before
    exported[3] = [1, 0]  # wrong before
    found = compared(exported)
    assert found.flipped.tolist() == [0, 3], "the row that moved most comes first"
    assert found.metrics["agreement"] == 0.5
    assert found.metrics["flips"] == 2
    assert found.metrics["accuracy_drop"] == 0
    assert found.metrics["max_abs_diff"] == 4
    assert found.metrics["mean_abs_diff"] == pytest.approx((2 + 4 + 1 + 2) / 8)
    assert found.metrics["accuracy_drop_low"] < 0 < found.metrics["accuracy_drop_high"]


def test_calibration_is_measured_before_and_after():
    """Doubled logits predict the same, and are surer of it."""
    assert ROWS.quality(TRAINED)["calibration_error"] == pytest.approx(1 / (1 + np.exp(-2)) - 0.75, abs=1e-6)
    assert compared(2 * TRAINED).metrics["calibration_error"] == pytest.approx(1 / (1 + np.exp(-4)) - 0.75, abs=1e-6)


def test_a_gain_is_a_negative_drop():
    exported = TRAINED.copy()
    exported[3] = [1, 0]
    assert compared(exported).metrics["accuracy_drop"] == -0.25


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_logits_that_are_no_numbers_are_a_fault_whatever_the_tolerance(wrong):
    exported = TRAINED.copy()
    exported[0, 1] = wrong  # a 0 there would be the right prediction
    found = compared(exported)
    assert all(np.isfinite(value) for value in found.metrics.values())
    assert faults_of(found, Tolerance(min_agreement=0.0, max_metric_drop=1.0), "accuracy") == ["no finite logits for row 0"]
    assert found.flipped.tolist() == [0]


def test_numbers_agree_within_a_share_of_the_spread_of_the_labels():
    labels = np.array([0, 1, 2, 3], dtype=np.float32)  # standard deviation 1.118
    rows = Rows(labels, SCORE, labels[:, None])
    exported = labels[:, None] + np.array([[0.0], [0.05], [0.06], [-0.2]])
    found = compared(exported, rows, close=0.05)
    assert found.flipped.tolist() == [3, 2]
    assert found.metrics["agreement"] == 0.5
    assert found.metrics["pearson_drop"] == pytest.approx(1 - np.corrcoef(labels, exported[:, 0])[0, 1], abs=1e-6)
    assert "calibration_error" not in found.metrics


def test_each_tolerance_is_a_fault_of_its_own_and_names_rows():
    exported = TRAINED.copy()
    exported[1] = [0, 1]
    faults = faults_of(compared(exported), Tolerance(max_abs_diff=0.5, min_agreement=0.9, max_metric_drop=0.1), "accuracy")
    assert faults == [
        "a logit of row 1 differs by 2, more than max_abs_diff 0.5",
        "agreement is 0.75, less than min_agreement 0.9: it flips row 1",
        "accuracy drops by 0.25, more than max_metric_drop 0.1",
    ]


def test_a_tolerance_reached_but_not_passed_is_no_fault():
    exported = TRAINED.copy()
    exported[1] = [0, 2]
    assert not faults_of(compared(exported), Tolerance(max_abs_diff=2, min_agreement=0.75, max_metric_drop=0.25), "accuracy")


def test_many_rows_are_named_by_the_ten_worst():
    assert rows_named(np.arange(30)[::-1]) == "rows 20, 21, 22, 23, 24, 25, 26, 27, 28, 29 and 20 more"
