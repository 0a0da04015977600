"""The linear model of several labels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier

from tuneline.model.linear.one_vs_rest import OneVsRest


def rows(count=400, seed=0):
    random = np.random.default_rng(seed)
    features = random.normal(size=(count, 5))
    labels = (features[:, :3] + random.normal(size=(count, 3)) > [1.5, 0.0, -0.5]).astype(np.int8)
    return features, labels


def test_each_label_has_the_logistic_regression_of_scikit_learn():
    features, labels = rows()
    model = OneVsRest(inverse=1.0, iterations=100).fit(sparse.csr_matrix(features), labels)
    for label in range(3):
        alone = LogisticRegression(C=1.0, max_iter=100).fit(features, labels[:, label])
        probability = alone.predict_proba(features)[:, 1]
        assert model.predict_proba(features)[:, label] == pytest.approx(probability, abs=1e-4)


def test_label_of_all_rows_is_certain_and_one_of_no_row_impossible():
    features, labels = rows()
    labels[:, 0] = 1
    labels[:, 1] = 0
    predicted = (
        OneVsRest(inverse=1.0, iterations=100, has_thresholds=True).fit(features, labels).predict(features)
    )
    assert predicted[:, 0].all()
    assert not predicted[:, 1].any()


def rare_labels(count, seed=0):
    """Return features and labels of Zipf frequencies, each with features of its own among noise."""
    random = np.random.default_rng(seed)
    labels = (random.random((count, 30)) < 0.5 / np.arange(1, 31)).astype(np.int8)
    words = random.random((count, 200)) < 0.05
    for label in range(30):
        own = words[:, 3 * label : 3 * label + 3]
        own |= (labels[:, label : label + 1] == 1) & (random.random(own.shape) < 0.5)
    features = words / np.sqrt(np.maximum(words.sum(axis=1, keepdims=True), 1))
    return sparse.csr_matrix(features), labels


def test_rare_labels_are_predicted_at_least_as_well_as_by_scikit_learn():
    train = rare_labels(800)
    features, labels = rare_labels(4_000, seed=1)
    plain = OneVsRestClassifier(LogisticRegression(C=10.0, max_iter=100)).fit(*train).predict(features)
    ours = OneVsRest(inverse=10.0, iterations=100, has_thresholds=True).fit(*train).predict(features)
    for average, gain in (("micro", 0.02), ("macro", 0.05)):
        assert f1_score(labels, ours, average=average) > f1_score(labels, plain, average=average) + gain
    assert labels.sum() / 1.5 < ours.sum() < labels.sum() * 1.5
