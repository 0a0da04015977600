import numpy as np

from tuneline.judge.evaluation.scoring import (
    baseline_metrics,
    spread_metrics,
)
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.table import METRIC_TABLE
from tuneline.model.tasks import Classification, Regression


def test_baseline_of_a_regression_is_the_mean():
    labels = np.array([2.0, 4.0], dtype=np.float32)
    predictions = Predictions(labels, labels, Regression())
    mean = np.full(2, 2.0, np.float32)
    assert baseline_metrics(predictions, "majority", mean, METRIC_TABLE["pearson"], 0) == {
        "mean_mse": 2.0,
        "mean_mae": 1.0,
    }


def test_predicted_classes_are_counted():
    task = Classification(("a", "b", "c", "d"))
    predictions = Predictions(np.array([0, 1, 2, 2]), np.array([0, 0, 0, 1]), task)
    counts = spread_metrics(predictions, METRIC_TABLE["accuracy"], 0)
    assert (
        counts["predicted_classes"],
        counts["never_predicted_classes"],
        counts["most_predicted_share"],
    ) == (2, 1, 0.75)
    assert counts["accuracy_low"] < 0.25 < counts["accuracy_high"]


def rare_class() -> Predictions:
    """Return 1,000 rows of which 5 % are of class 1, with a model that finds 45 of these 50."""
    labels = np.zeros(1000, np.int64)
    labels[:50] = 1
    found = labels.copy()
    found[45:50] = 0
    found[50:58] = 1
    return Predictions(labels, found, Classification(("ham", "spam")))


def test_difference_from_simple_models_is_of_the_metric_that_decides():
    predictions = rare_class()
    deciding = METRIC_TABLE["matthews_correlation"]
    few = np.where(np.arange(1000) < 22, 1, 0)  # 22 of the 50
    scores = baseline_metrics(predictions, "tfidf", few, deciding, 0)
    scores |= spread_metrics(predictions, deciding, 0)
    assert {"matthews_correlation_low", "matthews_correlation_high"} <= scores.keys()
    assert not {"accuracy_low", "accuracy_over_tfidf_low"} & scores.keys()
    assert scores["matthews_correlation_over_tfidf_low"] > 0.1
    majority = baseline_metrics(predictions, "majority", np.zeros(1000, np.int64), deciding, 0)
    assert majority["majority_accuracy"] == 0.95
