"""Scores of probabilities, before and after the temperature, with intervals."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from tuneline.evaluation.calibration_scores import calibration_scores
from tuneline.evaluation.keys import CALIBRATION_SCORES
from tuneline.evaluation.probability_scores import probability_scores
from tuneline.tasks import Classification, Multilabel, Regression

NAMES = ("a", "b", "c")


def classes(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return logits that are twice too sure, and labels."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, 1.5, (rows, 3))
    labels = (logits + random.gumbel(size=(rows, 3))).argmax(axis=1)
    return (2 * logits).astype(np.float32), labels


def sets(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return logits of several labels that are twice too sure, and labels."""
    random = np.random.default_rng(seed)
    logits = random.normal(-1, 1.5, (rows, 3))
    labels = (random.random((rows, 3)) < 1 / (1 + np.exp(-logits))).astype(np.int8)
    return (2 * logits).astype(np.float32), labels


def two_classes(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return logits of two classes that are twice too sure, and labels."""
    logits, labels = sets(rows, seed)
    return np.stack([np.zeros(rows, np.float32), logits[:, 0]], axis=1), labels[:, 0].astype(np.int64)


CASES = {
    "classes": (Classification(NAMES, temperature=2.0), classes),
    "two classes": (Classification(("no", "yes"), temperature=2.0), two_classes),
    "sets": (Multilabel(NAMES, temperatures=(2.0, 2.0, 2.0)), sets),
}


@pytest.mark.parametrize("case", CASES)
def test_scores_are_those_of_the_metric_table(case):
    task, draw = CASES[case]
    logits, labels = draw(500, 0)
    table = probability_scores(task, logits, labels)
    for estimate in calibration_scores(task, logits, labels, None):
        assert estimate.calibrated.value == pytest.approx(table[estimate.name])
        assert estimate.calibrated.low < estimate.calibrated.value < estimate.calibrated.high


def test_scores_are_those_of_scikit_learn():
    task, _ = CASES["two classes"]
    logits, labels = two_classes(500, 0)
    probability = task.scores(logits)[:, 1]
    table = probability_scores(task, logits, labels)
    assert table["log_loss"] == pytest.approx(log_loss(labels, probability))
    assert table["brier_score"] == pytest.approx(brier_score_loss(labels, probability))


@pytest.mark.parametrize("case", CASES)
def test_temperature_betters_every_score_of_a_model_that_is_too_sure(case):
    task, draw = CASES[case]
    logits, labels = draw(3000, 1)
    estimates = calibration_scores(task, logits, labels, None)
    assert [estimate.name for estimate in estimates] == list(CALIBRATION_SCORES)
    for estimate in estimates:
        assert estimate.change.high < 0, estimate.name
        difference = estimate.calibrated.value - estimate.uncalibrated.value
        assert estimate.change.low < difference < estimate.change.high


def test_interval_holds_the_score_of_many_rows():
    task, draw = CASES["classes"]
    logits, labels = draw(200_000, 99)
    log_loss_of_many = calibration_scores(task, logits, labels, None)[0].calibrated.value
    held = 0
    for seed in range(200):
        estimate, *_ = calibration_scores(task, *draw(200, seed), None)
        held += estimate.calibrated.low <= log_loss_of_many <= estimate.calibrated.high
    assert 180 <= held <= 198


def test_copies_of_rows_do_not_narrow_the_interval():
    task, draw = CASES["classes"]
    logits, labels = draw(100, 0)
    copied = np.repeat(np.arange(100), 20)
    alone = calibration_scores(task, logits, labels, None)[0].calibrated
    copies = calibration_scores(task, logits[copied], labels[copied], copied)[0].calibrated
    believed = calibration_scores(task, logits[copied], labels[copied], None)[0].calibrated
    assert copies.high - copies.low > 0.9 * (alone.high - alone.low)
    assert believed.high - believed.low < 0.3 * (alone.high - alone.low)


def test_number_has_no_probability():
    assert calibration_scores(Regression(), np.zeros((3, 1), np.float32), np.zeros(3), None) == []
