"""Constant predictions."""

import numpy as np

from tuneline.linear.estimators import constant_prediction
from tuneline.tasks import Multilabel

TASK = Multilabel(("angry", "billing", "technical"))


def test_most_frequent_set_is_predicted_without_a_text():
    labels = np.array([[1, 0, 0], [0, 1, 1], [0, 1, 1], [0, 0, 0]], np.int8)
    assert constant_prediction(TASK, [labels[:2], labels[2:]]).tolist() == [0, 1, 1]
