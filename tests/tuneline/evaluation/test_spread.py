"""How the predictions of a split spread over the classes."""

import numpy as np
import pytest

from tests.tuneline.tasks.label_sets import random_rows
from tuneline.evaluation.spread import spread
from tuneline.tasks import Multilabel

TASK = Multilabel(("angry", "billing", "technical"))


def test_collapse_shows_in_the_share_of_the_most_predicted_set():
    labels, _ = random_rows(50)
    figures = spread(TASK, np.tile(np.array([0, 1, 0], np.int8), (50, 1)), labels)
    assert figures == {
        "predicted_classes": 1,
        "never_predicted_classes": 2,
        "most_predicted_share": 1.0,
        "labels_per_row": pytest.approx(labels.sum() / 50),
        "predicted_labels_per_row": 1.0,
    }
