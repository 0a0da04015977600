"""Scores of the probabilities of a split."""

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    log_loss,
    roc_auc_score,
)

from tests.tuneline.model.tasks.label_sets import random_rows
from tuneline.judge.evaluation.curves import probability_scores
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.scores import prediction_metrics
from tuneline.model.tasks import Multilabel

TASK = Multilabel(("angry", "billing", "technical"))


def test_metrics_are_those_of_scikit_learn():
    labels, logits = random_rows()
    predictions = TASK.predictions(logits)
    assert prediction_metrics("multilabel", labels, predictions, "macro") == {
        "macro_f1": pytest.approx(f1_score(labels, predictions, average="macro")),
        "micro_f1": pytest.approx(f1_score(labels, predictions, average="micro")),
        "subset_accuracy": pytest.approx(accuracy_score(labels, predictions)),
    }
    probability = TASK.scores(logits)
    rows = Predictions.of_logits(labels, logits, TASK)
    assert probability_scores(rows)["roc_auc"] == pytest.approx(roc_auc_score(labels, probability))
    losses = [log_loss(labels[:, label], probability[:, label]) for label in range(3)]
    assert rows.loss() == pytest.approx(np.mean(losses))
