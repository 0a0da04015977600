import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import MultinomialNB

from stages.validate.labels import FOLDS, area_under_curve, learnability, log_odds, word_features
from tuneline.analysis.sampling import stratified_folds

WORDS = np.array([f"w{letter}{other}" for letter in "abcdefghij" for other in "abcdefghij"])


def topical(rows: int, classes: int, seed: int = 0):
    """Return features and labels of rows with ten words; words of its own class are six times as likely."""
    random = np.random.default_rng(seed)
    labels = random.integers(classes, size=rows)
    chance = [np.where(np.arange(len(WORDS)) % classes == label, 6.0, 1.0) for label in range(classes)]
    texts = [" ".join(random.choice(WORDS, 10, p=chance[label] / chance[label].sum())) for label in labels]
    return word_features([pa.array(texts)], 10_000), labels


def measured(features, labels, classes):
    return learnability(log_odds(features, labels, stratified_folds(labels, FOLDS, 0), classes), labels)


def test_log_odds_equal_those_of_scikit_learn_without_the_fold():
    features, labels = topical(300, 3)
    fold = stratified_folds(labels, FOLDS, 0)
    fold[:50] = -1
    counts = np.zeros((300, len(features)))
    counts[features.rows, features.ids] = 1
    for number in (-1, 0, 3):
        known = (fold >= 0) & (fold != number)
        counted = counts[known].sum(axis=0) > 0
        model = MultinomialNB(
            class_prior=(np.bincount(labels[known]) + 1) / (np.bincount(labels[known]) + 1).sum()
        )
        model.fit(
            np.hstack(
                [counts[known][:, counted], np.zeros((known.sum(), 2 * len(features) - counted.sum()))]
            ),
            labels[known],
        )
        rows = np.hstack(
            [
                counts[fold == number][:, counted],
                np.zeros(((fold == number).sum(), 2 * len(features) - counted.sum())),
            ]
        )
        probability = model.predict_proba(rows)
        np.testing.assert_allclose(
            log_odds(features, labels, fold, 3)[fold == number],
            np.log(probability / (1 - probability)),
            atol=1e-6,
        )


@pytest.mark.parametrize("classes", [2, 4])
def test_area_equals_that_of_scikit_learn(classes):
    random = np.random.default_rng(1)
    labels, scores = random.integers(classes, size=200), random.integers(9, size=(200, classes)) / 9
    expected = np.average(
        [roc_auc_score(labels == label, scores[:, label]) for label in range(classes)],
        weights=np.bincount(labels),
    )
    assert area_under_curve(scores, labels)[0] == pytest.approx(expected)


def test_standard_error_of_the_area_is_that_of_repeated_draws():
    random = np.random.default_rng(2)
    areas, errors = [], []
    for _ in range(300):
        labels = random.integers(3, size=150)
        scores = random.normal(size=(150, 3)) + 0.7 * np.eye(3)[labels]
        area, error = area_under_curve(scores, labels)
        areas.append(area)
        errors.append(error)
    assert np.mean(errors) == pytest.approx(np.std(areas), rel=0.1)


@pytest.mark.parametrize("classes", [2, 8])
def test_right_shuffled_and_flipped_labels_differ(classes):
    features, labels = topical(2000, classes)
    random = np.random.default_rng(3)
    right = measured(features, labels, classes)
    assert right["auc_low"] > 0.8
    assert right["disagreement_high"] < 0.2
    shuffled = measured(features, random.permutation(labels), classes)
    assert shuffled["auc_high"] < 0.55
    flipped = np.where(
        random.random(2000) < 0.3, (labels + random.integers(1, classes, size=2000)) % classes, labels
    )
    noisy = measured(features, flipped, classes)
    assert 0.55 < noisy["auc_low"] < right["auc_low"]
    assert 0.2 < noisy["disagreement_low"] < 0.3 < noisy["disagreement_high"] < 0.4
