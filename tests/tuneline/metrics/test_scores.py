import math

import numpy as np
import pytest

from tuneline.core.errors import ParamsError
from tuneline.core.tables import LabelSchema
from tuneline.metrics.scores import averaging, confusion_matrix, loss_of, metrics_of, predictions_of, task_of
from tuneline.metrics.table import metrics_for

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


def test_loss_is_finite_for_logits_that_overflow():
    assert loss_of(np.array([[1e4, -1e4]], dtype=np.float32), np.array([1])) == pytest.approx(2e4)
    assert loss_of(np.array([[0.0, 0.0]], dtype=np.float32), np.array([1])) == pytest.approx(math.log(2))
    assert loss_of(np.array([[3.0]], dtype=np.float32), np.array([1.0], dtype=np.float32)) == 4.0


@pytest.mark.parametrize(
    ("label_schema", "names"),
    [(PAIR, {"accuracy", "f1", "matthews_correlation", "loss"}), (NUMBER, {"pearson", "spearmanr", "mse", "loss"})],
)
def test_metrics_of_returns_the_metrics_of_the_task(label_schema, names):
    labels = np.array([0, 1], dtype=np.float32 if label_schema.is_regression else np.int64)
    assert names <= metrics_of(np.eye(2, dtype=np.float32)[:, : label_schema.outputs], labels, label_schema).keys()


@pytest.mark.parametrize(("labels", "task"), [(PAIR, "binary"), (QUEUES, "classification"), (NUMBER, "regression")])
def test_table_has_the_metrics_that_training_computes(labels, task):
    assert task_of(labels) == task
    outputs = np.eye(2, max(labels.outputs, 2), dtype=np.float32)[:, : labels.outputs]
    computed = metrics_of(outputs, np.array([0, 1], dtype=np.float32 if labels.is_regression else np.int64), labels)
    assert list(computed) == [metric.name for metric in metrics_for(task) if metric.validated]


def test_confusion_matrix_has_labels_in_rows():
    matrix = confusion_matrix(np.array([0, 0, 1]), np.array([1, 1, 1]), 2)
    assert matrix.tolist() == [[0, 2], [0, 1]]
