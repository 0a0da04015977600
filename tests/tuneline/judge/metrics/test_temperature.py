"""Temperatures make probabilities true, change no answer, and claim no more than their rows show."""

import numpy as np
import pytest

from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.temperature import calibrated, independent_rows
from tuneline.model.tasks import Classification, Multilabel
from tuneline.model.tasks.probabilities import sigmoid

CLASSES = Classification(("a", "b", "c"))
SETS = Multilabel(("rare", "x", "y"), thresholds=(0.2, 0.5, 0.7))


def drawn_classes(rows: int, sharpness: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return logits that are ``sharpness`` times too sure of themselves, and labels."""
    random = np.random.default_rng(seed)
    true_logits = random.normal(0, 1.5, (rows, 3))
    labels = (true_logits + random.gumbel(size=(rows, 3))).argmax(axis=1)
    return (sharpness * true_logits).astype(np.float32), labels


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 3.0])
def test_temperature_undoes_how_sure_a_model_is_of_itself(sharpness):
    logits, labels = drawn_classes(20_000, sharpness)
    task = calibrated(Predictions.of_logits(labels, logits, CLASSES))
    assert task.temperature == pytest.approx(sharpness, rel=0.05)
    assert (task.predictions(logits) == CLASSES.predictions(logits)).all()


def test_rows_without_an_error_do_not_make_a_model_certain():
    logits, _ = drawn_classes(200, 3.0)
    labels = logits.argmax(axis=1)
    highest = calibrated(Predictions.of_logits(labels, logits, CLASSES)).scores(logits).max(axis=1)
    expected_errors = (1 - highest).mean()
    assert 1 / 200 < expected_errors < 1 / 15, "200 rows without an error are compatible with 1 in 67"


def test_copies_of_a_text_are_one_row():
    logits, _ = drawn_classes(20, 3.0)
    labels = logits.argmax(axis=1)
    copied = np.repeat(np.arange(20), 50)
    few = calibrated(Predictions.of_logits(labels, logits, CLASSES)).temperature
    copies = calibrated(Predictions.of_logits(labels[copied], logits[copied], CLASSES, copied)).temperature
    believed = calibrated(Predictions.of_logits(labels[copied], logits[copied], CLASSES)).temperature
    assert copies == pytest.approx(few, rel=1e-3)
    assert believed < 0.8 * few
    assert independent_rows(copied, np.arange(1000)) == 20


def test_rows_without_a_label_do_not_count():
    logits, labels = drawn_classes(500, 2.0)
    unlabelled = labels.copy()
    unlabelled[::2] = -1
    half = calibrated(Predictions.of_logits(labels[1::2], logits[1::2], CLASSES)).temperature
    assert calibrated(Predictions.of_logits(unlabelled, logits, CLASSES)).temperature == pytest.approx(
        half, rel=0.01
    )
    assert calibrated(Predictions.of_logits(np.full(500, -1), logits, CLASSES)) is CLASSES


def test_each_label_has_a_temperature_and_keeps_its_decisions():
    random = np.random.default_rng(1)
    true_logits = random.normal([-5.5, 0, 0], 1.5, (4000, 3))
    labels = (random.random((4000, 3)) < sigmoid(true_logits)).astype(np.int8)
    labels[:, 0] = 0
    labels[:5, 0] = 1  # too few rows for a temperature of its own
    logits = (true_logits * [1.0, 0.5, 4.0]).astype(np.float32)
    task = calibrated(Predictions.of_logits(labels, logits, SETS))
    rare, sure, unsure = task.temperatures
    assert (sure, unsure) == (pytest.approx(0.5, rel=0.1), pytest.approx(4.0, rel=0.1))
    assert rare not in (sure, unsure)
    assert (task.predictions(logits) == SETS.predictions(logits)).all()
    assert task.with_decisions(task.decisions).temperatures == task.temperatures


def test_rows_of_many_rare_labels_do_not_make_true_probabilities_less_true():
    random = np.random.default_rng(0)
    is_in_question = random.random((160, 48)) < 0.06
    logits = np.where(is_in_question, random.normal(1.5, 2, (160, 48)), random.normal(-6, 1, (160, 48)))
    labels = (random.random(logits.shape) < sigmoid(logits)).astype(np.int8)
    task = calibrated(
        Predictions.of_logits(labels, logits.astype(np.float32), Multilabel(tuple(map(str, range(48)))))
    )
    assert np.median(task.temperatures) == pytest.approx(1, abs=0.1)


def test_a_temperature_that_other_rows_do_not_confirm_is_1():
    random = np.random.default_rng(3)
    confirmed = []
    for _ in range(20):
        logits, labels = drawn_classes(60, 1.0, int(random.integers(1000)))
        confirmed.append(calibrated(Predictions.of_logits(labels, logits, CLASSES)).temperature != 1)
    assert 0 < sum(confirmed) < 10
