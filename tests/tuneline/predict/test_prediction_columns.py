"""The columns of a prediction."""

import numpy as np

from tuneline.predict.prediction_columns import prediction_columns, prediction_rows, prediction_types
from tuneline.tasks import Multilabel

TASK = Multilabel(("angry", "billing", "technical"))


def test_prediction_rows_have_the_names_and_the_probability_of_each_label():
    rows = list(prediction_rows(TASK, np.array([[0.91234, 0.2, 0.6], [0.1, 0.2, 0.3]]), 2))
    assert rows == [[["angry", "technical"], 0.91, 0.2, 0.6], [[], 0.1, 0.2, 0.3]]
    assert len(prediction_columns(TASK)) == len(prediction_types(TASK)) == 4
