import numpy as np
import pyarrow as pa

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
