from dataclasses import replace

import numpy as np
import pytest

from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.table import METRIC_TABLE, primary_metric
from tuneline.model.tasks import Classification, Regression
from tuneline.onnx.comparison import compare_logits, quality

CLASSES, SCORE = Classification(("a", "b")), Regression()
TRAINED = np.array([[2, 0], [2, 0], [0, 2], [0, 2]], dtype=np.float32)
REFERENCE = Predictions.of_logits(
    np.array([0, 0, 1, 0]), TRAINED, CLASSES
)  # the trained model is wrong in row 3


def compared(exported, trained=REFERENCE, close_rmse=0.25, metric=None):
    metric = metric or primary_metric(trained.task.kind)
    return compare_logits(trained, np.asarray(exported, dtype=np.float32), metric, close_rmse, seed=0)


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
    assert result.metrics["accuracy_drop_low"] < 0 < result.metrics["accuracy_drop_high"]


def test_calibration_error_is_measured_for_both_models():
    """Doubled logits give the same predictions with more confidence, unless a temperature halves them."""
    sure = 1 / (1 + np.exp(-2)) - 0.75
    accuracy = primary_metric(CLASSES.kind)
    of_trained = quality(REFERENCE, accuracy)
    assert of_trained["accuracy"] == 0.75
    assert of_trained["calibration_error"] == pytest.approx(sure, abs=1e-6)
    halving = replace(CLASSES, temperature=2.0)
    of_doubled = quality(Predictions.of_logits(REFERENCE.labels, 2 * TRAINED, halving), accuracy)
    assert of_doubled["calibration_error"] == pytest.approx(sure, abs=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        np.nan,
    ],
)
def test_logits_that_are_not_finite_violate_any_tolerance(wrong):
    exported = TRAINED.copy()
    exported[0, 1] = wrong  # a 0 there would be the right prediction
    result = compared(exported)
    assert all(np.isfinite(value) for value in result.metrics.values())
    assert result.not_finite.tolist() == [0]
    assert result.flipped.tolist() == [0]


def test_interval_of_agreement_is_exact():
    """Of 20 rows, 20 agree: the rate may be as low as that at which this happens once in 40 times."""
    labels = np.zeros(20, dtype=np.int64)
    logits = np.tile(np.array([1, 0], dtype=np.float32), (20, 1))
    metrics = compared(logits, Predictions.of_logits(labels, logits, CLASSES)).metrics
    assert metrics["agreement_low"] == pytest.approx(0.025 ** (1 / 20))
    assert metrics["agreement_high"] == 1


def test_regression_predictions_agree_within_a_part_of_the_error_of_the_trained_model():
    labels = np.array([0, 10, 20, 30], dtype=np.float32)
    predictions = labels + np.array([2, -2, 2, -2], dtype=np.float32)  # root mean squared error 2
    reference = Predictions.of_logits(labels, predictions[:, None], SCORE)
    exported = predictions[:, None] + np.array([[0.0], [0.49], [0.51], [-0.8]])
    result = compared(exported, reference, close_rmse=0.25)
    assert result.flipped.tolist() == [3, 2]
    assert result.metrics["agreement"] == 0.5
    drop = np.corrcoef(labels, predictions)[0, 1] - np.corrcoef(labels, exported[:, 0])[0, 1]
    assert result.metrics["pearson_drop"] == pytest.approx(drop, abs=1e-6)
    assert "calibration_error" not in result.metrics


def test_drop_is_of_the_metric_that_decides():
    labels = np.repeat([0, 1], [95, 5])
    trained = np.stack([np.zeros(100), np.where(labels == 1, 1.0, -1.0)], axis=1).astype(np.float32)
    reference = Predictions.of_logits(labels, trained, CLASSES)
    exported = trained.copy()
    exported[95:97] *= -1  # two of the five rows of the rare class
    metrics = compared(exported, reference, metric=METRIC_TABLE["matthews_correlation"]).metrics
    assert metrics["matthews_correlation_drop"] == pytest.approx(1 - 0.7666, abs=1e-3)
    assert metrics["matthews_correlation_drop_low"] >= 0
    assert metrics["matthews_correlation_drop_high"] > 0.4
    assert "accuracy_drop" not in metrics
