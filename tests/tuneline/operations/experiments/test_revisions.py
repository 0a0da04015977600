"""Two models on the rows of both, by the present labels."""

import numpy as np
import pytest

from tuneline.core.runtime.errors import DataError
from tuneline.judge.metrics.predictions import Predictions
from tuneline.model.tasks import Multilabel, Regression, task_with_names
from tuneline.operations.experiments.revisions import compare_revisions, numbered


def predicted(texts: str, labels: str, predictions: str, names: str = "abc") -> Predictions:
    """Return predictions: one letter for each row's text, label and prediction."""
    ids = np.array(list(numbered(list(texts))))
    columns = [np.array([names.index(one) for one in values]) for values in (labels, predictions)]
    return Predictions(*columns, task_with_names(tuple(names)), ids=ids)


def test_rows_are_joined_by_their_texts_and_scored_by_the_present_labels():
    now = predicted("pqrss", labels="abcaa", predictions="abcab")
    then = predicted("sxrqp", labels="dabba", predictions="dacbb", names="dcba")
    found = compare_revisions(now, then)
    assert found.rows == 4, "p, q, r and the first s"
    assert found.left_out == (1, 1)
    assert found.relabelled == 2, "r was b, and s was d"
    accuracy, test = found.models.differences["accuracy"], found.models.test
    assert (accuracy.first, accuracy.second) == (1.0, 0.5), "p was wrong; s was d, an unknown class"
    assert (test.first_only, test.second_only) == (2, 0)


def test_models_without_a_common_row_or_task_are_refused():
    now = predicted("p", "a", "a")
    with pytest.raises(DataError, match="no row in common"):
        compare_revisions(now, predicted("q", "a", "a"))
    with pytest.raises(DataError, match="classification and regression"):
        compare_revisions(now, Predictions(np.zeros(1), np.zeros(1), Regression(), ids=now.ids))


def test_sets_of_labels_are_compared_by_their_names():
    ids = np.array(["p 0", "q 0", "r 0"])
    labels = np.array([[1, 1], [0, 1], [0, 0]], np.int8)
    now = Predictions(labels, labels, Multilabel(("a", "b")), ids=ids)
    # b and c; b; none: c is a label that the present model does not have
    predictions_then = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]], np.int8)
    labels_then = np.array([[1, 0, 1], [1, 0, 1], [0, 0, 0]], np.int8)
    then = Predictions(labels_then, predictions_then, Multilabel(("b", "c", "a")), ids=ids)
    found = compare_revisions(now, then)
    assert found.relabelled == 1, "q had a, too"
    subset = found.models.differences["subset_accuracy"]
    assert (subset.first, subset.second) == (1.0, pytest.approx(2 / 3)), "p got a label that there is no more"
    assert found.models.differences["micro_f1"].second == pytest.approx(2 / 4)
    assert found.models.test is None, "McNemar's test is of single classes"
