import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.shards import into_shards
from tuneline.core.stage.tables import SplitReader
from tuneline.judge.metrics.predictions import Predictions
from tuneline.model.tasks import Classification, Multilabel, Regression
from tuneline.page.predictions import Confusion, about_errors, class_metrics, largest_errors

NAMES = ("billing", "delivery", "damage")
LOGITS = np.array([[5, 0, 0], [0, 1, 0], [0, 3, 0], [9, 0, 0], [0, 0, 2]], dtype=np.float32)
LABELS = np.array([0, 1, 0, 1, 0])
CLASSIFIER = Predictions.of_logits(LABELS, LOGITS, Classification(NAMES))
# billing and delivery; delivery; none; billing and damage
SETS = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 1]], dtype=np.int8)
# billing and delivery; billing and delivery; none; damage, at the thresholds 0.5, 0.9 and 0.2
SET_LOGITS = np.array([[2, 3, -3], [1, 3, -3], [-2, 2, -3], [-1, -1, -1]], dtype=np.float32)
SEVERAL = Predictions.of_logits(SETS, SET_LOGITS, Multilabel(NAMES, thresholds=(0.5, 0.9, 0.2)))
REGRESSION = Predictions.of_logits(np.float32([1, 2, 3]), np.float32([[1.5], [2], [0]]), Regression())


@pytest.fixture
def raw(tmp_path):
    """A raw split of five rows, of which one has no body, in three shards."""
    table = pa.table({"subject": ["a", "b", "c", "d", "e"], "body": ["v", "w", "x", None, "z"]})
    pq.write_table(table, tmp_path / "test.parquet")
    into_shards(tmp_path, rows=2)
    return SplitReader.open(tmp_path, "test", "download")


def test_confusion_matrix_has_labels_in_rows_and_predictions_in_columns():
    confusion = Confusion.of(CLASSIFIER)
    assert confusion.counts.tolist() == [[1, 1, 1], [1, 1, 0], [0, 0, 0]]
    assert confusion.most_confused == [
        ("billing", "delivery", 1),
        ("billing", "damage", 1),
        ("delivery", "billing", 1),
    ]
    assert confusion.fraction(1, 0) == 0.5


def test_class_metrics_are_none_where_they_are_undefined():
    billing, _, damage = class_metrics(CLASSIFIER)
    assert (billing.rows, billing.precision, billing.recall, billing.f1) == (3, 1 / 2, 1 / 3, 2 / 5)
    assert (damage.rows, damage.precision, damage.recall, damage.f1) == (0, 0.0, None, 0.0)


def test_largest_errors_of_a_classifier_are_the_most_confident_wrong_predictions(raw):
    errors = largest_errors(CLASSIFIER, raw, ["subject", "body"])
    assert [(error.row, error.label, error.predicted) for error in errors] == [
        (3, "delivery", "billing"),
        (2, "billing", "delivery"),
        (4, "billing", "damage"),
    ]
    assert errors[0].texts == [("subject", "d"), ("body", "")]
    assert errors[0].measure == "confidence 100.0 %"


def test_each_of_several_labels_has_its_metrics_and_its_threshold():
    billing, delivery, damage = class_metrics(SEVERAL)
    assert (billing.rows, billing.precision, billing.recall, billing.f1) == (2, 1 / 2, 1 / 2, 1 / 2)
    assert (delivery.rows, delivery.precision, delivery.recall, delivery.f1) == (2, 1.0, 1.0, 1.0)
    assert (damage.rows, damage.f1) == (1, 1.0)
    assert [label.threshold for label in class_metrics(SEVERAL)] == [0.5, 0.9, 0.2]
    assert [label.threshold for label in class_metrics(CLASSIFIER)] == [None] * 3
    assert class_metrics(REGRESSION) == []


def test_largest_errors_of_several_labels_are_the_most_confident_wrong_decisions():
    errors = largest_errors(SEVERAL, None, [])
    assert [(error.row, error.label, error.predicted) for error in errors] == [
        (1, "delivery", "billing; delivery"),
        (3, "billing; damage", "damage"),
    ]
    assert [error.measure for error in errors] == ["confidence 73.1 %", "confidence 73.1 %"]
    assert "exactly their labels" in about_errors(SEVERAL)
