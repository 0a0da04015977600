import numpy as np
import pyarrow as pa

from tuneline.analysis.label_bins import bins
from tuneline.analysis.splitting import strata
from tuneline.metrics.judging import mean_loss
from tuneline.tasks import Regression
from tuneline.tasks.columns import observed_classes, parsed_labels, stored_labels

NUMBER = Regression()


def test_prediction_is_the_only_output():
    assert NUMBER.predictions(np.array([[0.5], [2]], dtype=np.float32)).tolist() == [0.5, 2]


def test_loss_is_the_mean_squared_error():
    assert mean_loss(NUMBER, np.array([[3.0]], dtype=np.float32), np.array([1.0], dtype=np.float32)) == 4.0


def test_labels_are_missing_only_where_all_are_the_mark():
    assert NUMBER.unlabelled(np.array([-1.0, 2.0])).tolist() == [False, False]
    assert NUMBER.unlabelled(np.array([-1.0, -1.0])).tolist() == [True, True]


def test_number_that_a_person_wrote_is_valid_if_it_is_finite():
    numbers = parsed_labels(NUMBER, pa.chunked_array([["1.5", "much", "inf"]]))
    assert NUMBER.valid(numbers).tolist() == [True, False, False]


def test_numbers_are_stored_in_32_bits():
    assert stored_labels(NUMBER, pa.array([0.1, None]), ()).equals(pa.array([0.1, None], pa.float32()))


def test_numbers_are_binned_at_the_median_of_the_finite_ones():
    names, edges = bins(NUMBER, np.array([1, 2, 3, np.nan], dtype=np.float32))
    assert names == ("labels up to 2", "labels above 2")
    assert edges == (2.0,)


def test_numbers_are_no_classes_and_in_no_stratum():
    labels = pa.array([1.5, 2.5])
    assert observed_classes(NUMBER, labels) == set()
    assert strata(NUMBER, labels).to_pylist() == [[], []]
