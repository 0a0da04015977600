"""Scores of the probabilities of a split."""

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    brier_score_loss,
    f1_score,
    hamming_loss,
    log_loss,
)

from tests.tuneline.tasks.label_sets import random_rows
from tuneline.evaluation.probability_scores import probability_scores
from tuneline.metrics.judging import mean_loss
from tuneline.metrics.scores import prediction_metrics
from tuneline.tasks import Multilabel

TASK = Multilabel(("angry", "billing", "technical"))


def test_metrics_are_those_of_scikit_learn():
    labels, logits = random_rows()
    predictions = TASK.predictions(logits)
    assert prediction_metrics("multilabel", labels, predictions, "macro") == {
        "macro_f1": pytest.approx(f1_score(labels, predictions, average="macro")),
        "micro_f1": pytest.approx(f1_score(labels, predictions, average="micro")),
        "samples_f1": pytest.approx(f1_score(labels, predictions, average="samples", zero_division=1)),
        "subset_accuracy": pytest.approx(accuracy_score(labels, predictions)),
        "hamming_loss": pytest.approx(hamming_loss(labels, predictions)),
    }
    probability = TASK.scores(logits)
    metrics = probability_scores(TASK, logits, labels)
    assert metrics["mean_average_precision"] == pytest.approx(average_precision_score(labels, probability))
    assert metrics["macro_f1_at_half"] == pytest.approx(f1_score(labels, probability > 0.5, average="macro"))
    brier = [brier_score_loss(labels[:, label], probability[:, label]) for label in range(3)]
    assert metrics["brier_score"] == pytest.approx(np.mean(brier))
    losses = [log_loss(labels[:, label], probability[:, label]) for label in range(3)]
    assert mean_loss(TASK, logits, labels) == pytest.approx(np.mean(losses))
