import numpy as np
from scipy import special

from tuneline.model.tasks.probabilities import LARGEST_EXPONENT, probabilities, sigmoid


def test_probabilities_equal_the_softmax_of_scipy():
    logits = np.random.default_rng(0).normal(scale=5, size=(100, 7)).astype(np.float32)
    assert np.array_equal(probabilities(logits), special.softmax(logits.astype(np.float64), axis=1))


def test_sigmoid_has_the_bits_of_scipy():
    generator = np.random.default_rng(0)
    usual = generator.normal(scale=5, size=(20_000, 5)).astype(np.float32)
    extreme = generator.uniform(-800, 800, size=(20_000, 5))
    ends = np.array([0.0, -0.0, np.inf, -np.inf, 1e308, -1e308])
    largest = np.array([-LARGEST_EXPONENT, np.nextafter(-LARGEST_EXPONENT, -np.inf)])
    for logits in (usual, extreme, ends, largest, usual[:0]):
        assert np.array_equal(sigmoid(logits), special.expit(logits.astype(np.float64)))
