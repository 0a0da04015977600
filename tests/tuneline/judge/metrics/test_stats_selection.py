"""The best of several models on the same rows."""

import numpy as np
import pytest

from tuneline.judge.metrics.stats import select_best
from tuneline.judge.metrics.table import METRIC_TABLE

ACCURACY = METRIC_TABLE["accuracy"]


def guesses(generator, labels, models, right):
    """Predictions of binary models, each right on a random share of the rows."""
    return [[np.where(generator.random(len(labels)) < right, labels, 1 - labels)] for _ in range(models)]


def test_the_luck_of_the_best_of_many_equal_models_is_removed():
    """Twenty models of accuracy 0.7: the best of them looks better, and its interval without the choice would
    miss 0.7 too often."""
    generator, apparent, corrected, covered = np.random.default_rng(0), [], [], []
    for repetition in range(40):
        labels = generator.integers(2, size=150)
        chosen = select_best(
            ACCURACY, labels, guesses(generator, labels, 20, 0.7), seed=repetition, resamples=300
        )
        apparent.append(chosen.value)
        corrected.append(chosen.corrected)
        covered.append(chosen.low <= 0.7 <= chosen.high)
    assert np.mean(apparent) > 0.75
    assert np.mean(corrected) == pytest.approx(0.7, abs=0.02)
    assert np.mean(covered) > 0.9


def test_models_that_differ_by_luck_are_indistinguishable_and_a_bad_one_is_not():
    generator = np.random.default_rng(3)
    labels = generator.integers(2, size=400)
    models = [*guesses(generator, labels, 2, 0.8), *guesses(generator, labels, 1, 0.5)]
    chosen = select_best(ACCURACY, labels, models)
    assert chosen.indistinguishable == (1 - chosen.best,)


def test_the_best_configuration_is_the_best_mean_of_its_seeds():
    labels = np.arange(100) % 2
    perfect, wrong, good = labels, 1 - labels, np.where(np.arange(100) < 80, labels, 1 - labels)
    chosen = select_best(ACCURACY, labels, [[perfect, wrong], [good, good]])
    assert (chosen.best, chosen.value) == (1, 0.8)


@pytest.mark.parametrize("name", ["f1", "pearson", "mse"])
def test_every_metric_of_predictions_is_corrected(name):
    generator = np.random.default_rng(0)
    labels = generator.integers(2, size=60) if name == "f1" else generator.normal(size=60)
    models = [
        [labels.copy() if name == "f1" else labels + 0.1 * generator.normal(size=60)],
        [generator.permutation(labels)],
    ]
    chosen = select_best(METRIC_TABLE[name], labels, models, resamples=100)
    assert (chosen.best, chosen.indistinguishable) == (0, ())
