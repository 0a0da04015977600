"""The columns of a prediction."""

import numpy as np

from tuneline.judge.decisions.rule import answers_of
from tuneline.model.tasks import Multilabel, Regression
from tuneline.serve.columns import (
    json_prediction,
    prediction_columns,
    prediction_rows,
)

TASK = Multilabel(("angry", "billing", "technical"))


def test_prediction_rows_have_the_names_and_the_probability_of_each_label():
    scores = np.array([[0.9123456789, 0.2, 0.6], [0.1, 0.2, 0.3]])
    rows = list(prediction_rows(TASK, scores, answers_of(TASK, scores, None)))
    assert rows == [[["angry", "technical"], 0.912346, 0.2, 0.6], [[], 0.1, 0.2, 0.3]]
    assert len(prediction_columns(TASK)) == 4


def test_number_has_the_ends_of_its_interval_if_they_are_known():
    scores = np.array([[1.5], [-2.0]])
    for task, expected in (
        (Regression(), [[1.5], [-2.0]]),
        (Regression(half_width=0.25), [[1.5, 1.25, 1.75], [-2.0, -2.25, -1.75]]),
    ):
        rows = list(prediction_rows(task, scores, answers_of(task, scores, None)))
        assert rows == expected
        assert len(prediction_columns(task)) == len(expected[0])
        assert json_prediction(task, rows[0])["prediction"] == 1.5


def test_number_of_a_small_unit_has_its_digits():
    scores = np.array([[1.23456789e-7]])
    task = Regression(half_width=2.5e-8)
    rows = list(prediction_rows(task, scores, answers_of(task, scores, None)))
    assert rows == [[1.23457e-7, 9.84568e-8, 1.48457e-7]]
