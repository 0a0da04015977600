import numpy as np
import pytest

from tuneline.judge.evaluation.scoring import baseline_metrics
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.table import METRIC_TABLE
from tuneline.model.tasks import Classification, Regression

NO_YES = Classification(("no", "yes"))
NUMBERS = Regression()


def test_metrics_of_the_baseline_and_the_interval_of_the_difference():
    labels = np.array([0, 1] * 100)
    model, baseline = labels.copy(), labels.copy()
    model[:10], baseline[:60] = 1 - labels[:10], 1 - labels[:60]
    predictions = Predictions(labels, model, NO_YES)
    metrics = baseline_metrics(predictions, "tfidf", baseline, METRIC_TABLE["accuracy"], 0)
    assert (metrics["tfidf_accuracy"], metrics["tfidf_f1"]) == (0.7, 0.7)
    # 50 of 200 rows differ, all in favour of the model: 0.25 with a standard error of (0.25 * 0.75 / 200) **
    # 0.5 = 0.031
    assert metrics["accuracy_over_tfidf_low"] == pytest.approx(0.25 - 1.96 * 0.031, abs=0.01)
    assert metrics["accuracy_over_tfidf_high"] == pytest.approx(0.25 + 1.96 * 0.031, abs=0.01)


def test_metrics_of_the_baseline_of_a_regression():
    labels = np.arange(50, dtype=np.float32)
    predictions = Predictions(labels, labels, NUMBERS)
    metrics = baseline_metrics(predictions, "tfidf", np.zeros_like(labels), METRIC_TABLE["pearson"], 0)
    assert metrics["tfidf_pearson"] == 0
    assert metrics["pearson_over_tfidf_low"] == pytest.approx(1)
    assert "tfidf_mse" in metrics
