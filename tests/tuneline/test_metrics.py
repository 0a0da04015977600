import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneline.errors import ParamsError
from tuneline.files.schemas import LabelSchema
from tuneline.metrics import averaging, classification_metrics, loss_of, metrics_of, predictions_of, regression_metrics

PAIR, QUEUES, NUMBER = LabelSchema(("no", "yes")), LabelSchema(("a", "b", "c")), LabelSchema(None)


def test_f1_is_binary_for_two_classes_and_macro_for_more():
    assert averaging(PAIR, None) == "binary"
    assert averaging(QUEUES, None) == "macro"
    assert averaging(PAIR, "macro") == "macro"
    with pytest.raises(ParamsError, match=r"evaluate\.f1"):
        averaging(QUEUES, "binary")


def test_a_tie_goes_to_the_lowest_id():
    assert predictions_of(np.array([[1, 1], [0, 1]], dtype=np.float32), PAIR).tolist() == [0, 1]
    assert predictions_of(np.array([[0.5], [2]], dtype=np.float32), NUMBER).tolist() == [0.5, 2]


@settings(max_examples=50, deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40))
def test_binary_scores_are_those_of_their_definitions(pairs):
    labels, predictions = np.array(pairs).T
    tp, fp, fn, tn = (int(((labels == actual) & (predictions == said)).sum()) for actual, said in ((1, 1), (0, 1), (1, 0), (0, 0)))
    below = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    assert classification_metrics(labels, predictions, "binary") == {
        "accuracy": pytest.approx((tp + tn) / len(pairs)),
        "f1": pytest.approx(2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0),
        "matthews_correlation": pytest.approx((tp * tn - fp * fn) / below if below else 0.0),
    }


def test_numbers_that_do_not_vary_correlate_with_nothing():
    constant, other = np.ones(5, dtype=np.float32), np.arange(5, dtype=np.float32)
    assert regression_metrics(other, constant) == {"pearson": 0.0, "spearmanr": 0.0, "mse": pytest.approx(3.0)}
    assert regression_metrics(other, other * 2)["pearson"] == pytest.approx(1.0)


def test_the_loss_is_finite_for_logits_that_overflow():
    assert loss_of(np.array([[1e4, -1e4]], dtype=np.float32), np.array([1])) == pytest.approx(2e4)
    assert loss_of(np.array([[0.0, 0.0]], dtype=np.float32), np.array([1])) == pytest.approx(math.log(2))
    assert loss_of(np.array([[3.0]], dtype=np.float32), np.array([1.0], dtype=np.float32)) == 4.0


@pytest.mark.parametrize(
    ("label_schema", "names"),
    [(PAIR, ["accuracy", "f1", "matthews_correlation", "loss"]), (NUMBER, ["pearson", "spearmanr", "mse", "loss"])],
)
def test_each_task_has_its_metrics(label_schema, names):
    labels = np.array([0, 1], dtype=np.float32 if label_schema.is_regression else np.int64)
    assert list(metrics_of(np.eye(2, dtype=np.float32)[:, : label_schema.outputs], labels, label_schema)) == names
