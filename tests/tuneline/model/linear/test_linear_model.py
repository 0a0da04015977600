import math

import numpy as np
import pytest

from tuneline.model.linear.linear_model import LinearModel, pair_features, pair_width
from tuneline.model.tasks import Classification, Regression

THREE = Classification(("a", "b", "c"))
NUMBERS = Regression()


def rows(classes, count=120, seed=0):
    """Return features of very different scales, float32 ``(count, 5)``, and class ids that depend on them."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(count, 5))
    answers = np.array(classes)[np.argmax(vectors[:, : len(classes)], axis=1)]
    return (vectors * [1e-3, 1, 1e2, 1, 1] + [0, 5, -30, 0, 0]).astype(np.float32), answers


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("classes", "labels"),
    [((0, 1), Classification(("no", "yes"))), ((0, 1, 2), THREE), ((0, 2), THREE)],
    ids=["two", "three", "missing"],
)
def test_softmax_of_the_logits_gives_the_probabilities_of_the_pipeline(classes, labels):
    train, validation = rows(classes), rows(classes, seed=1)
    fitted = LinearModel.fit(train, validation, labels)
    weight, bias = fitted.weights(5, labels)
    expected = np.zeros((len(validation[0]), labels.outputs))
    expected[:, fitted.model.classes_] = fitted.model.predict_proba(validation[0])
    assert weight.dtype == bias.dtype == np.float64
    np.testing.assert_allclose(softmax(validation[0] @ weight.T + bias), expected, atol=1e-5)
    in_float32 = validation[0] @ weight.astype(np.float32).T + bias.astype(np.float32)
    np.testing.assert_allclose(softmax(in_float32), expected, atol=1e-4)


def test_numbers_are_those_of_the_ridge_regression():
    vectors, answers = rows((0, 1, 2))
    targets = (answers * 2.5 + vectors[:, 1]).astype(np.float32)
    fitted = LinearModel.fit((vectors, targets), (vectors[:40], targets[:40]), NUMBERS)
    weight, bias = fitted.weights(5, NUMBERS)
    np.testing.assert_allclose((vectors @ weight.T + bias)[:, 0], fitted.predict(vectors), rtol=1e-4)


def test_features_of_a_pair_are_both_vectors_their_absolute_difference_their_product_and_the_cosine():
    first, second = np.array([[1.0, -2.0]], np.float32), np.array([[3.0, 1.0]], np.float32)
    features = np.hstack(pair_features(first, second))
    np.testing.assert_allclose(features, [[1, -2, 3, 1, 2, 3, 3, -2, 1 / math.sqrt(5 * 10)]], rtol=1e-6)
    assert features.shape[1] == pair_width(2)


def test_rounding_errors_of_a_feature_have_no_weight():
    vectors, answers = rows((0, 1, 2))
    vectors[:, 4] *= 1e-32
    fitted = LinearModel.fit((vectors, answers), (vectors[:40], answers[:40]), THREE)
    weight, _ = fitted.weights(5, THREE)
    assert not weight[:, 4].any()
    assert np.abs(weight[:, 1]).max() > 0
