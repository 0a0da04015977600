"""How validation chooses what decides."""

import numpy as np
import pytest

from stages.train.decisions import cross_fitted, decided
from tests.tuneline.tasks.label_sets import random_rows
from tuneline.linear.thresholds import divisions
from tuneline.params.train import ThresholdParams
from tuneline.tasks import Classification, Multilabel

TASK = Multilabel(("angry", "billing", "technical"))


@pytest.mark.parametrize("choose", ["f1", "precision", "recall", "half"])
def test_no_row_is_decided_by_thresholds_that_it_has_chosen(choose):
    labels, logits = random_rows()
    rule = ThresholdParams(choose=choose, target=0.8 if choose in ("precision", "recall") else None)
    predictions = cross_fitted(TASK, logits, labels, rule)
    for held_out, _ in divisions(len(labels)):
        others = labels.copy()
        others[held_out] = 1 - others[held_out]
        assert (cross_fitted(TASK, logits, others, rule)[held_out] == predictions[held_out]).all()
    if choose != "half":
        assert (decided(TASK, logits, labels, rule).predictions(logits) != predictions).any()


def test_cross_fitted_rows_get_at_least_one_label_if_they_must():
    labels, logits = random_rows()
    rule = ThresholdParams(at_least_one=True)
    assert cross_fitted(TASK, logits, labels, rule).any(axis=1).all()
    assert decided(TASK, logits, labels, rule).at_least_one


def test_cross_fitted_classes_are_the_most_probable_ones():
    classes = Classification(("no", "yes"))
    logits = np.array([[0.1, 0.2], [3, 1]], np.float32)
    assert cross_fitted(classes, logits, np.array([1, 1]), ThresholdParams()).tolist() == [1, 0]
