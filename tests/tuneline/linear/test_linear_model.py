import math

import numpy as np
import pytest

from tuneline.linear import linear_model as linear
from tuneline.linear.estimators import linear_model
from tuneline.linear.linear_model import LinearModel
from tuneline.model.pair_features import pair_features, pair_width
from tuneline.tasks import Classification, Regression

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


def test_regularization_is_chosen_by_cross_validation_where_validation_has_few_rows():
    """Few rows choose worse models, by their accuracy and by their likelihood: here in the mean of 10
    samples."""
    labels, ours, by_likelihood, by_accuracy = Classification(("no", "yes")), [], [], []
    for seed in range(10):
        random = np.random.default_rng(seed)
        vectors = random.normal(size=(2_000, 20)).astype(np.float32)
        answers = (vectors[:, 0] + random.normal(size=2_000) > 0).astype(int)
        train, few, new = (
            (vectors[part], answers[part]) for part in (slice(80), slice(80, 95), slice(95, None))
        )
        models = [
            linear._pipeline(linear_model(labels, inverse, 200, final=False), np.ones(20)).fit(*train)
            for inverse in linear.REGULARIZATION
        ]
        ours.append(LinearModel.fit(train, few, labels).model.score(*new))
        by_likelihood.append(max(models, key=lambda model: linear._score(labels, model, *few)).score(*new))
        by_accuracy.append(max(models, key=lambda model: model.score(*few)).score(*new))
    assert np.mean(ours) > np.mean(by_likelihood) + 0.005
    assert np.mean(ours) > np.mean(by_accuracy) + 0.005


def test_cosine_of_a_pair_is_hardly_regularized():
    """It alone tells the classes apart, among 400 features of noise and with few rows."""
    random = np.random.default_rng(0)
    features = random.normal(size=(600, 401)).astype(np.float32)
    answers = (features[:, -1] + 0.5 * random.normal(size=600) > 0).astype(int)
    train, new = ((features[part], answers[part]) for part in (slice(60), slice(60, None)))
    labels = Classification(("no", "yes"))
    plain, emphasized = (LinearModel.fit(train, train, labels, cosine_last=value) for value in (False, True))
    assert emphasized.model.score(*new) > plain.model.score(*new) + 0.1
    weight, bias = emphasized.weights(401, labels)
    assert (np.argmax(new[0] @ weight.T + bias, axis=1) == emphasized.predict(new[0])).all(), (
        "the factor is a part of the weights"
    )
