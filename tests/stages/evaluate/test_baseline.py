import numpy as np
import pytest

from stages.evaluate.baseline import baseline_metrics
from tuneline.files.schemas import LabelSchema


def test_the_majority_is_that_of_the_train_split():
    scores = baseline_metrics(np.array([1, 1, 0]), np.array([0, 0, 0, 1]), LabelSchema(("no", "yes")), "binary")
    assert scores == {"majority_accuracy": 0.25, "majority_f1": pytest.approx(0.4)}


def test_a_regression_is_held_against_the_mean():
    train, labels = np.array([1.0, 3.0], dtype=np.float32), np.array([2.0, 4.0], dtype=np.float32)
    assert baseline_metrics(train, labels, LabelSchema(None), "macro") == {"mean_mse": 2.0}
