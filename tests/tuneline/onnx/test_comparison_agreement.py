"""How far an exported model predicts the same."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from tuneline.judge.metrics.predictions import Predictions
from tuneline.model.tasks import Multilabel
from tuneline.onnx.comparison import agreement

TASK = Multilabel(("angry", "billing", "technical"))


def test_agreement_is_the_f1_of_the_exported_sets_where_the_trained_ones_are_true():
    trained = np.array([[1, 1, 1], [1, 1, 1], [-1, -1, -1], [-1, -1, 1]], np.float32)
    exported = np.array([[1, 1, -1], [1, 1, 1], [-1, -1, -1], [1, -1, -1]], np.float32)
    predictions = [Predictions.of_logits(trained, logits, TASK) for logits in (trained, exported)]
    agreeing = agreement(*predictions, 0.0)
    assert agreeing.tolist() == [pytest.approx(4 / 5), 1.0, 1.0, 0.0]

    expected = f1_score(trained > 0, exported > 0, average="samples", zero_division=1.0)
    assert agreeing.mean() == pytest.approx(expected)
