import numpy as np
import pyarrow as pa

from tuneline.model.tasks import Regression
from tuneline.model.tasks.columns import parsed_labels

NUMBER = Regression()


def test_labels_are_missing_only_where_all_are_the_mark():
    assert NUMBER.unlabelled(np.array([-1.0, 2.0])).tolist() == [False, False]
    assert NUMBER.unlabelled(np.array([-1.0, -1.0])).tolist() == [True, True]


def test_number_that_a_person_wrote_is_valid_if_it_is_finite():
    numbers = parsed_labels(NUMBER, pa.chunked_array([["1.5", "much", "inf"]]))
    assert NUMBER.valid(numbers).tolist() == [True, False, False]
