"""Sets of labels as one number, as text, and as figures: what checks, corrections and ingestion compare."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneline.model.tasks import Classification, Multilabel, Regression, recorded_kind, task_with_names
from tuneline.model.tasks.columns import array_of, labels_of

TASK = Multilabel(("a", "b", "c", "d", "e", "f", "g", "h"))
IDS = pa.list_(pa.int64())


@given(st.lists(st.lists(st.integers(0, 7), unique=True), min_size=2))
def test_codes_are_equal_for_equal_sets_only_and_exact_as_floats(sets):
    codes = TASK.codes(array_of(TASK, pa.array([sorted(ids) for ids in sets], IDS)))
    assert (codes.astype(np.float64).astype(np.int64) == codes).all()
    for left, right in zip(range(len(sets)), range(1, len(sets)), strict=False):
        assert (codes[left] == codes[right]) == (set(sets[left]) == set(sets[right]))


def test_codes_tell_no_label_a_missing_and_an_unknown_one():
    labels = labels_of(TASK, pa.array([[], None, [-1], [8], [0, 9]], IDS))
    assert TASK.codes(labels).tolist() == [0, -1, -1, -2, -2]


@pytest.mark.parametrize("task", [Classification(("a", "b")), Regression(), TASK])
def test_kind_and_names_of_a_record_give_the_task_again(task):
    assert task_with_names(task.names, recorded_kind(task)) == task
