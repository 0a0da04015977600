import numpy as np
import pytest

from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.table import METRIC_TABLE
from tuneline.model.tasks import Multilabel
from tuneline.operations.experiments.paired import McNemar, PairedComparison


def test_mcnemar_counts_discordant_rows():
    labels = np.zeros(20, dtype=np.int64)
    ours, theirs = labels.copy(), labels.copy()
    theirs[:10], ours[10:12] = 1, 1
    result = McNemar.of(ours == labels, theirs == labels)
    assert (result.first_only, result.second_only) == (10, 2)
    # 2 * sum(C(12, k) for k in 0..2) / 2**12, by hand
    assert result.p == pytest.approx(2 * (1 + 12 + 66) / 4096)


def test_sets_of_labels_are_compared_by_their_metrics_alone():
    labels = np.tile(np.array([[1, 0], [0, 1], [0, 0]], np.int8), (40, 1))
    exact_where_empty = np.zeros_like(labels)
    predictions = Predictions(labels, labels, Multilabel(("a", "b")))
    result = PairedComparison.of(predictions, exact_where_empty, [METRIC_TABLE["macro_f1"]])
    assert result.test is None
    assert result.differences["macro_f1"].low > 0
