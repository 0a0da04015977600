import numpy as np
from scipy import special

from tuneline.tasks.probabilities import probabilities


def test_probabilities_of_large_logits_are_finite():
    np.testing.assert_allclose(
        probabilities(np.array([[1000.0, 0.0], [-1000.0, -1000.0]])), [[1, 0], [0.5, 0.5]]
    )


def test_probabilities_equal_the_softmax_of_scipy():
    logits = np.random.default_rng(0).normal(scale=5, size=(100, 7)).astype(np.float32)
    assert np.array_equal(probabilities(logits), special.softmax(logits.astype(np.float64), axis=1))
