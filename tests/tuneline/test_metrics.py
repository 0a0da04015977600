import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneline.errors import ParamsError
from tuneline.files.schemas import LabelSchema
from tuneline.metrics import (
    METRIC_TABLE,
    averaging,
    classification_metrics,
    confusion_matrix,
    loss_of,
    metrics_for,
    metrics_of,
    predictions_of,
    primary_metric,
    regression_metrics,
    task_of,
)

PAIR, QUEUES, NUMBER = LabelSchema(("no", "yes")), LabelSchema(("a", "b", "c")), LabelSchema(None)


def test_f1_is_binary_for_two_classes_and_macro_for_more():
    assert averaging(PAIR, None) == "binary"
    assert averaging(QUEUES, None) == "macro"
    assert averaging(PAIR, "macro") == "macro"
    with pytest.raises(ParamsError, match=r"evaluate\.f1"):
        averaging(QUEUES, "binary")


def test_predictions_of_tied_logits_are_the_lowest_class_id():
    assert predictions_of(np.array([[1, 1], [0, 1]], dtype=np.float32), PAIR).tolist() == [0, 1]
    assert predictions_of(np.array([[0.5], [2]], dtype=np.float32), NUMBER).tolist() == [0.5, 2]


@settings(max_examples=50, deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40))
def test_binary_metrics_match_their_definitions(pairs):
    labels, predictions = np.array(pairs).T
    tp, fp, fn, tn = (
        int(((labels == actual) & (predictions == predicted)).sum()) for actual, predicted in ((1, 1), (0, 1), (1, 0), (0, 0))
    )
    below = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    assert classification_metrics(labels, predictions, "binary") == {
        "accuracy": pytest.approx((tp + tn) / len(pairs)),
        "f1": pytest.approx(2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0),
        "matthews_correlation": pytest.approx((tp * tn - fp * fn) / below if below else 0.0),
    }


def test_correlations_of_a_constant_are_zero():
    constant, other = np.ones(5, dtype=np.float32), np.arange(5, dtype=np.float32)
    assert regression_metrics(other, constant) == {"pearson": 0.0, "spearmanr": 0.0, "mse": pytest.approx(3.0)}
    assert regression_metrics(other, other * 2)["pearson"] == pytest.approx(1.0)


def test_loss_is_finite_for_logits_that_overflow():
    assert loss_of(np.array([[1e4, -1e4]], dtype=np.float32), np.array([1])) == pytest.approx(2e4)
    assert loss_of(np.array([[0.0, 0.0]], dtype=np.float32), np.array([1])) == pytest.approx(math.log(2))
    assert loss_of(np.array([[3.0]], dtype=np.float32), np.array([1.0], dtype=np.float32)) == 4.0


@pytest.mark.parametrize(
    ("label_schema", "names"),
    [(PAIR, ["accuracy", "f1", "matthews_correlation", "loss"]), (NUMBER, ["pearson", "spearmanr", "mse", "loss"])],
)
def test_metrics_of_returns_the_metrics_of_the_task(label_schema, names):
    labels = np.array([0, 1], dtype=np.float32 if label_schema.is_regression else np.int64)
    assert list(metrics_of(np.eye(2, dtype=np.float32)[:, : label_schema.outputs], labels, label_schema)) == names


@pytest.mark.parametrize(("labels", "task"), [(PAIR, "binary"), (QUEUES, "classification"), (NUMBER, "regression")])
def test_table_has_the_metrics_that_training_computes(labels, task):
    assert task_of(labels) == task
    outputs = np.eye(2, max(labels.outputs, 2), dtype=np.float32)[:, : labels.outputs]
    computed = metrics_of(outputs, np.array([0, 1], dtype=np.float32 if labels.is_regression else np.int64), labels)
    assert list(computed) == [metric.name for metric in metrics_for(task) if metric.validated]


def test_table_directions_are_those_of_the_field():
    assert {name for name, metric in METRIC_TABLE.items() if not metric.greater_is_better} == {"calibration_error", "mse", "loss"}


@pytest.mark.parametrize(("task", "name"), [("binary", "accuracy"), ("classification", "accuracy"), ("regression", "pearson")])
def test_primary_metric_is_accuracy_or_pearson(task, name):
    assert primary_metric(task).name == name


@pytest.mark.parametrize("metric", [metric for metric in METRIC_TABLE.values() if metric.interval == "bootstrap"], ids=lambda it: it.name)
def test_metric_with_a_bootstrap_interval_can_be_resampled(metric):
    assert metric.resampled


@pytest.mark.parametrize("average", ["binary", "macro"])
@pytest.mark.parametrize("metric", [metric for metric in METRIC_TABLE.values() if metric.count_score], ids=lambda it: it.name)
@given(pairs=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=60))
@settings(max_examples=50, deadline=None)
def test_count_score_of_all_rows_equals_the_score(metric, average, pairs):
    kinds, counts = np.unique(np.array(pairs), axis=0, return_counts=True)
    labels, predictions = np.array(pairs).T
    (value,) = metric.count_score(counts[None].astype(np.float64), kinds[:, 0], kinds[:, 1], average)
    assert value == pytest.approx(metric.score(labels, predictions, average), abs=1e-9)


@pytest.mark.parametrize("metric", [metric for metric in METRIC_TABLE.values() if metric.count_score], ids=lambda it: it.name)
@given(pairs=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=60))
@settings(max_examples=50, deadline=None)
def test_count_score_of_many_classes_equals_the_score(metric, pairs):
    kinds, counts = np.unique(np.array(pairs), axis=0, return_counts=True)
    labels, predictions = np.array(pairs).T
    (value,) = metric.count_score(counts[None].astype(np.float64), kinds[:, 0], kinds[:, 1], "macro")
    assert value == pytest.approx(metric.score(labels, predictions, "macro"), abs=1e-9)


def test_row_score_equals_pearson_of_scipy_and_is_zero_for_a_constant():
    labels, predictions = np.random.default_rng(0).normal(size=(2, 3, 50))
    metric = METRIC_TABLE["pearson"]
    expected = [metric.score(one, other, "macro") for one, other in zip(labels, predictions, strict=True)]
    assert metric.row_score(labels, predictions).tolist() == pytest.approx(expected)
    assert metric.row_score(labels, np.ones_like(labels)).tolist() == [0, 0, 0]


def test_confusion_matrix_has_labels_in_rows():
    matrix = confusion_matrix(np.array([0, 0, 1]), np.array([1, 1, 1]), 2)
    assert matrix.tolist() == [[0, 2], [0, 1]]


def test_reading_the_table_imports_no_array_library():
    command = "import sys, tuneline.metrics; sys.exit(bool({'numpy', 'pyarrow', 'scipy', 'sklearn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0
