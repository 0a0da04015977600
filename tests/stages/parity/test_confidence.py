import numpy as np
import pytest

from stages.parity.confidence import expected_calibration_error


def logits_with(confidence):
    """Two classes, the first with the given probability."""
    return np.array([[np.log(value / (1 - value)), 0] for value in confidence], dtype=np.float32)


def test_confidence_that_comes_true_has_no_error():
    labels = np.array([0] * 8 + [1] * 2)
    assert expected_calibration_error(logits_with([0.8] * 10), labels) == pytest.approx(0, abs=1e-6)


def test_the_error_is_the_mean_gap_of_the_bins_weighted_by_their_rows():
    labels = np.array([0, 0, 1, 1, 0, 0])  # 0.6: half right; 0.9: all right
    error = expected_calibration_error(logits_with([0.6] * 4 + [0.9] * 2), labels)
    assert error == pytest.approx((4 * 0.1 + 2 * 0.1) / 6, abs=1e-6)


def test_full_confidence_falls_into_the_last_bin():
    assert expected_calibration_error(np.array([[1000, 0]], np.float32), np.array([0])) == 0
    assert expected_calibration_error(np.array([[1000, 0]], np.float32), np.array([1])) == 1
