import numpy as np
import pyarrow as pa
import pytest

from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.scores import scale_numbers, task_metrics
from tuneline.model.tasks import Classification
from tuneline.model.tasks.columns import encoded_predictions, parsed_labels, stored_labels

PAIR, QUEUES = Classification(("no", "yes")), Classification(("a", "b", "c"))


def test_class_that_a_task_does_not_have_becomes_no_label():
    other = Classification(("c", "gone", "a"))
    assert QUEUES.translated(np.array([0, 1, 2]), other).tolist() == [2, -1, 0]
    assert encoded_predictions(QUEUES, pa.chunked_array([["b", "gone"]])).tolist() == [1, -1]


def test_labels_are_stored_as_ids_of_how_they_are_written():
    written = pa.array(["0", "1", None, "7"])
    assert stored_labels(PAIR, written, ("0", "1")).to_pylist() == [0, 1, None, -1]


def test_unknown_class_that_a_person_wrote_is_no_valid_label():
    ids = parsed_labels(PAIR, pa.chunked_array([["yes", "perhaps"]]))
    assert ids.tolist() == [1, -2]
    assert PAIR.valid(np.array([1, -2, -1, 2])).tolist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("names", "is_scale"),
    [
        (("1", "2", "3", "4", "5"), True),
        (("1.0", "1.5", "2.0"), True),
        (("0", "1"), False),
        (("3", "17", "42"), False),
        (("1", "2", "nan"), False),
    ],
)
def test_scale_is_of_numbers_in_even_steps(names, is_scale):
    assert (scale_numbers(Classification(names)) is not None) == is_scale


def test_classes_of_a_scale_have_the_mean_absolute_error_of_their_numbers():
    task = Classification(("1", "10", "2", "3", "4", "5", "6", "7", "8", "9"))  # sorted as text
    labels = np.array([0, 1, 2, 3])  # 1, 10, 2, 3
    predictions = np.array([1, 1, 3, 3])  # 10, 10, 3, 3
    assert Predictions(labels, predictions, task).scores()["mae"] == (9 + 0 + 1 + 0) / 4
    assert "mae" in [metric.name for metric in task_metrics(task)]
    assert "mae" not in Predictions(labels % 3, predictions % 3, QUEUES).scores()
