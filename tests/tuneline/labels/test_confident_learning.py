"""Confident learning: numbers computed by hand, and planted errors."""

import numpy as np
import pytest

from tuneline.labels.confident_learning import (
    class_thresholds,
    confident_joint,
    estimated_joint,
    likely_errors,
)

LABELS = np.array([0, 0, 0, 0, 1, 1, 1])
FIRST = np.array([0.9, 0.8, 0.7, 0.2, 0.1, 0.6, 0.7])
PROBABILITIES = np.stack([FIRST, 1 - FIRST], axis=1)
"""The thresholds are 2.6 / 4 = 0.65 and 1.6 / 3 = 0.533. Row 5 reaches neither."""


def test_joint_and_errors_of_a_small_example():
    assert class_thresholds(LABELS, PROBABILITIES) == pytest.approx([0.65, 1.6 / 3])
    assert confident_joint(LABELS, PROBABILITIES).tolist() == [[3, 1], [1, 1]]
    assert estimated_joint(LABELS, PROBABILITIES) == pytest.approx(np.array([[3, 1], [1.5, 1.5]]))
    assert likely_errors(LABELS, PROBABILITIES).tolist() == [
        3,
        6,
    ], "round(2.5) rows, that with the least probable label first"


def test_planted_errors_are_found_among_uncertain_rows():
    generator = np.random.default_rng(0)
    true = generator.integers(4, size=2_000)
    wrong = np.sort(generator.permutation(2_000)[:60])
    labels = true.copy()
    labels[wrong] = (true[wrong] + 1) % 4
    logits = generator.normal(size=(2_000, 4)) + 4 * np.eye(4)[true]
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = likely_errors(labels, probabilities)
    assert 50 <= len(found) <= 90
    assert np.isin(found[:40], wrong).mean() > 0.9
    assert np.isin(wrong, found).mean() > 0.8


def test_classes_without_rows_and_constant_predictions_give_no_errors():
    labels = np.array([0, 0, 2])
    with np.errstate(all="raise"):
        assert np.isinf(class_thresholds(labels, np.full((3, 3), 1 / 3))[1])
        assert likely_errors(labels, np.full((3, 3), 1 / 3)).size == 0
        assert likely_errors(labels, np.eye(3)[labels]).size == 0
