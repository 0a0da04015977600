import numpy as np
import pytest

from tuneline.judge.evaluation.evaluation import evaluate_predictions
from tuneline.judge.evaluation.slices import ENOUGH_ROWS
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.table import METRIC_TABLE
from tuneline.model.tasks import Classification

PAIR = Classification(("no", "yes"))
ROWS = 4 * ENOUGH_ROWS
LABELS = np.arange(ROWS) % 2
LENGTHS = np.arange(ROWS)
ACCURACY = METRIC_TABLE["accuracy"]


def predictions(wrong: int, clusters: np.ndarray | None = None) -> Predictions:
    """Return predictions of two classes, of which the first ones are wrong."""
    predicted = LABELS.copy()
    predicted[:wrong] = 1 - predicted[:wrong]
    return Predictions.of_logits(LABELS, np.eye(2, dtype=np.float32)[predicted] * 4, PAIR, clusters)


def test_evaluation_has_the_metrics_of_the_model_and_of_the_simple_models_and_the_worst_slice():
    baselines = {"majority": np.zeros_like(LABELS)}
    metrics, slices = evaluate_predictions(
        predictions(wrong=8), LENGTHS, baselines, deciding=ACCURACY, seed=0
    )
    assert metrics["accuracy"] == pytest.approx(0.9)
    assert metrics["majority_accuracy"] == pytest.approx(0.5)
    assert {"accuracy_low", "accuracy_over_majority_low", "loss", "rows"} <= metrics.keys()
    assert metrics["worst_slice_accuracy"] == pytest.approx(12 / 20), "the shortest rows"
    assert [scored.by for scored in slices.slices] == ["length"] * 4 + ["label"] * 2
    assert "leaked_rows" not in metrics


def test_evaluation_without_leaked_rows_is_repeated_for_the_simple_models():
    leaked = np.arange(ROWS) < 8
    baselines = {"majority": np.zeros_like(LABELS)}
    metrics, _ = evaluate_predictions(
        predictions(wrong=8), LENGTHS, baselines, deciding=ACCURACY, seed=0, leaked=leaked
    )
    assert metrics["leaked_rows"] == 8
    assert metrics["accuracy_without_leaks"] == 1
    assert metrics["majority_accuracy_without_leaks"] == pytest.approx(0.5)


def test_evaluation_counts_the_clusters_of_the_rows():
    clusters = np.arange(ROWS) // 2
    metrics, _ = evaluate_predictions(predictions(8, clusters), LENGTHS, {}, deciding=ACCURACY, seed=0)
    assert metrics["clusters"] == ROWS / 2
