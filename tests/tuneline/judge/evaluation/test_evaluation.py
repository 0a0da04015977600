import numpy as np
import pytest

from tuneline.judge.evaluation.evaluation import evaluate_predictions
from tuneline.judge.evaluation.slices import ENOUGH_ROWS, length_slices
from tuneline.judge.metrics.predictions import PredictedLogits
from tuneline.model.tasks import Classification

PAIR = Classification(("no", "yes"))
ROWS = 4 * ENOUGH_ROWS
LABELS = np.arange(ROWS) % 2
LENGTHS = np.arange(ROWS)


def predictions(wrong: int, clusters: np.ndarray | None = None) -> PredictedLogits:
    """Return predictions of two classes, of which the first ones are wrong."""
    predicted = LABELS.copy()
    predicted[:wrong] = 1 - predicted[:wrong]
    return PredictedLogits(LABELS, np.eye(2, dtype=np.float32)[predicted] * 4, PAIR, clusters)


def test_evaluation_has_the_metrics_of_the_model_and_of_the_simple_models_and_the_worst_slice():
    baselines = {"majority": np.zeros_like(LABELS)}
    result = evaluate_predictions(
        predictions(wrong=8), length_slices(LENGTHS), baselines, seed=0, metric=None
    )
    assert result.metrics["accuracy"] == pytest.approx(0.9)
    assert result.metrics["majority_accuracy"] == pytest.approx(0.5)
    assert {"accuracy_low", "accuracy_over_majority_low", "loss", "rows"} <= result.metrics.keys()
    assert result.worst_slice == {"worst_slice_accuracy": pytest.approx(12 / 20)}, "the shortest rows"
    assert "leaked_rows" not in result.metrics


def test_evaluation_without_leaked_rows_is_repeated_for_the_simple_models():
    leaked = np.arange(ROWS) < 8
    baselines = {"majority": np.zeros_like(LABELS)}
    result = evaluate_predictions(
        predictions(wrong=8), length_slices(LENGTHS), baselines, seed=0, metric="accuracy", leaked=leaked
    )
    assert result.metrics["leaked_rows"] == 8
    assert result.metrics["accuracy_without_leaks"] == 1
    assert result.metrics["majority_accuracy_without_leaks"] == pytest.approx(0.5)


def test_evaluation_counts_the_clusters_of_the_rows():
    clusters = np.arange(ROWS) // 2
    result = evaluate_predictions(predictions(8, clusters), length_slices(LENGTHS), {}, seed=0, metric=None)
    assert result.metrics["clusters"] == ROWS / 2
