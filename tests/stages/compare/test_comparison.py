import numpy as np
import pytest

from stages.compare.__main__ import TrainedLogits, compare_logits, rows_named, violations_of
from tests.params import params
from tuneline.core.tables import LabelSchema

CLASSES, SCORE = LabelSchema(("a", "b")), LabelSchema(None)
TRAINED = np.array([[2, 0], [2, 0], [0, 2], [0, 2]], dtype=np.float32)
REFERENCE = TrainedLogits(np.array([0, 0, 1, 0]), CLASSES, TRAINED)  # the trained model is wrong in row 3


def tolerance(**limits):
    return params(compare={"fp32": limits}).compare.fp32


def compared(exported, reference=REFERENCE, close=0.05):
    return compare_logits(reference, np.asarray(exported, dtype=np.float32), close, seed=0)


def test_equal_logits_have_no_differences():
    metrics = compared(TRAINED).metrics
    same = {"max_abs_diff": 0, "mean_abs_diff": 0, "agreement": 1, "flips": 0}
    assert metrics.items() >= {**same, "accuracy": 0.75, "accuracy_drop": 0, "accuracy_drop_low": 0, "accuracy_drop_high": 0}.items()


def test_flip_lowers_agreement_and_a_wrong_flip_lowers_accuracy():
    exported = TRAINED.copy()
    exported[0] = [0, 4]  # right before
    exported[3] = [1, 0]  # wrong before
    result = compared(exported)
    assert result.flipped.tolist() == [0, 3], "the row that moved most comes first"
    assert result.metrics["agreement"] == 0.5
    assert result.metrics["flips"] == 2
    assert result.metrics["accuracy_drop"] == 0
    assert result.metrics["max_abs_diff"] == 4
    assert result.metrics["mean_abs_diff"] == pytest.approx((2 + 4 + 1 + 2) / 8)
    assert result.metrics["accuracy_drop_low"] < 0 < result.metrics["accuracy_drop_high"]


def test_calibration_error_is_measured_for_both_models():
    """Doubled logits give the same predictions with more confidence."""
    assert REFERENCE.quality(TRAINED)["calibration_error"] == pytest.approx(1 / (1 + np.exp(-2)) - 0.75, abs=1e-6)
    assert compared(2 * TRAINED).metrics["calibration_error"] == pytest.approx(1 / (1 + np.exp(-4)) - 0.75, abs=1e-6)


def test_gain_of_accuracy_is_a_negative_drop():
    exported = TRAINED.copy()
    exported[3] = [1, 0]
    assert compared(exported).metrics["accuracy_drop"] == -0.25


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_violate_any_tolerance(wrong):
    exported = TRAINED.copy()
    exported[0, 1] = wrong  # a 0 there would be the right prediction
    result = compared(exported)
    assert all(np.isfinite(value) for value in result.metrics.values())
    widest = tolerance(max_abs_diff=None, min_agreement=0.0, max_metric_drop=1.0)
    assert violations_of(result, widest, "accuracy") == ["no finite logits for row 0"]
    assert result.flipped.tolist() == [0]


def test_regression_predictions_agree_within_a_fraction_of_the_standard_deviation():
    labels = np.array([0, 1, 2, 3], dtype=np.float32)  # standard deviation 1.118
    reference = TrainedLogits(labels, SCORE, labels[:, None])
    exported = labels[:, None] + np.array([[0.0], [0.05], [0.06], [-0.2]])
    result = compared(exported, reference, close=0.05)
    assert result.flipped.tolist() == [3, 2]
    assert result.metrics["agreement"] == 0.5
    assert result.metrics["pearson_drop"] == pytest.approx(1 - np.corrcoef(labels, exported[:, 0])[0, 1], abs=1e-6)
    assert "calibration_error" not in result.metrics


def test_each_exceeded_tolerance_is_a_violation_that_names_rows():
    exported = TRAINED.copy()
    exported[1] = [0, 1]
    violations = violations_of(compared(exported), tolerance(max_abs_diff=0.5, min_agreement=0.9, max_metric_drop=0.1), "accuracy")
    assert violations == [
        "a logit of row 1 differs by 2, more than max_abs_diff 0.5",
        "agreement is 0.75, less than min_agreement 0.9: it flips row 1",
        "accuracy drops by 0.25, more than max_metric_drop 0.1",
    ]


def test_value_equal_to_its_tolerance_passes():
    exported = TRAINED.copy()
    exported[1] = [0, 2]
    assert not violations_of(compared(exported), tolerance(max_abs_diff=2, min_agreement=0.75, max_metric_drop=0.25), "accuracy")


def test_rows_named_lists_the_ten_worst_rows():
    assert rows_named(np.arange(30)[::-1]) == "rows 20, 21, 22, 23, 24, 25, 26, 27, 28, 29 and 20 more"
