"""The last layer of a model."""

import pytest

from stages.train.heads import new_bias
from stages.train.losses import balanced_weights
from tests.tuneline.tasks.label_sets import random_rows
from tuneline.tasks import Multilabel

TASK = Multilabel(("angry", "billing", "technical"))


def test_new_head_starts_with_the_frequencies_of_the_labels():
    labels, _ = random_rows(3_000)
    bias = new_bias(TASK, labels, None)
    assert TASK.scores(bias[None])[0] == pytest.approx(labels.mean(axis=0), abs=1e-3)
    balanced = new_bias(TASK, labels, balanced_weights(TASK, labels))
    assert TASK.scores(balanced[None])[0] == pytest.approx([0.5] * 3, abs=1e-2)
