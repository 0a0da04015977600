"""Thresholds of several labels: few rows do not move them, and many determine them."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score

from tuneline.core.params.train import ThresholdParams
from tuneline.model.linear.thresholds import choose_thresholds

F1 = ThresholdParams()
PRECISION = ThresholdParams(choose="precision", target=0.8)
RECALL = ThresholdParams(choose="recall", target=0.8)
ROWS_OF_RARE = 2 * (1 + 3)
"""Most rows of validation for which a label with one row is predicted: twice its rows and three more."""


def zipf_rows(rows=300, labels=40, seed=0):
    """Return labels with Zipf frequencies, and logits around the log odds of each, as a model learns them."""
    random = np.random.default_rng(seed)
    share = np.minimum(0.5, 1 / np.arange(1, labels + 1))
    has_label = random.random((rows, labels)) < share / 2
    logits = np.log(share / 2) + random.normal(size=(rows, labels)) + 4 * has_label
    return logits, has_label


def chosen(logits, has_label, rule=F1):
    """Return the predictions of rows by the thresholds that they choose."""
    return 1 / (1 + np.exp(-logits)) > choose_thresholds(logits, has_label, rule)


def with_rare_label(rank):
    """Return rows whose last label has one row, which has a rank among the logits, 0 for the highest."""
    logits, has_label = zipf_rows()
    logits[:, -1] = -np.arange(300) / 30
    has_label[:, -1] = np.arange(300) == rank
    return logits, has_label


@pytest.mark.parametrize("rank", [0, 100, 299])
@pytest.mark.parametrize("rule", [F1, PRECISION])
def test_one_row_of_validation_does_not_set_a_threshold(rank, rule):
    assert chosen(*with_rare_label(rank), rule)[:, -1].sum() <= ROWS_OF_RARE


def test_target_that_is_reached_on_one_row_is_not_reached():
    logits, has_label = with_rare_label(20)
    with_row = choose_thresholds(logits, has_label, RECALL)[-1]
    has_label[:, -1] = False
    shared = choose_thresholds(logits, has_label, RECALL)[-1]
    assert with_row == pytest.approx(shared, abs=0.12)
    own = 1 / (1 + np.exp(-logits[20, -1]))
    assert own < shared - 0.3


def test_label_with_many_rows_has_about_its_highest_f1():
    logits, has_label = zipf_rows(3_000)
    fresh_logits, fresh_labels = zipf_rows(3_000, seed=1)
    thresholds = choose_thresholds(logits, has_label, F1)
    probability = 1 / (1 + np.exp(-fresh_logits))
    for label in range(5):
        scores = []
        for threshold in np.quantile(probability[:, label], np.linspace(0, 0.99, 100)):
            scores.append(f1_score(fresh_labels[:, label], probability[:, label] > threshold))
        score = f1_score(fresh_labels[:, label], probability[:, label] > thresholds[label])
        assert score > max(scores) - 0.02


@pytest.mark.parametrize("rule", [F1, PRECISION, RECALL])
def test_label_that_the_model_cannot_tell_is_not_predicted_for_all_rows(rule):
    logits, has_label = zipf_rows()
    logits[:, -2:] = -3.0
    has_label[:, -2:] = False
    has_label[7, -1] = True
    assert not chosen(logits, has_label, rule)[:, -2:].any()


@pytest.mark.parametrize(
    ("rule", "score"), [(PRECISION, precision_score), (RECALL, recall_score)], ids=["precision", "recall"]
)
def test_labels_with_many_rows_reach_their_target(rule, score):
    logits, has_label = zipf_rows(3_000)
    predicted = chosen(logits, has_label, rule)
    other = recall_score if rule.choose == "precision" else precision_score
    for label in range(5):
        assert score(has_label[:, label], predicted[:, label]) == pytest.approx(0.8, abs=0.03)
        assert other(has_label[:, label], predicted[:, label]) > 0.2, (
            "not by predicting nothing, or everything"
        )
