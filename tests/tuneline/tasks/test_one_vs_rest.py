"""The linear model of several labels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from tuneline.tasks.one_vs_rest import OneVsRest


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
    predicted = OneVsRest(inverse=1.0, iterations=100, held_out=5).fit(features, labels).predict(features)
    assert predicted[:, 0].all()
    assert not predicted[:, 1].any()


def test_thresholds_of_held_out_rows_find_more_of_a_rare_label():
    features, labels = rows(2_000)
    new_features, new_labels = rows(2_000, seed=1)
    scores = []
    for held_out in (None, 5):
        model = OneVsRest(inverse=1.0, iterations=100, held_out=held_out).fit(features, labels)
        scores.append(f1_score(new_labels[:, 0], model.predict(new_features)[:, 0]))
    assert scores[1] > scores[0] + 0.02
