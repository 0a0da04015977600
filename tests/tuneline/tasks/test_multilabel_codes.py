"""Sets of labels as one number, as text, and as figures: what checks, corrections and ingestion compare."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneline.analysis.label_bins import histograms
from tuneline.tasks import Classification, Multilabel, Regression, recorded_kind, task_with_names
from tuneline.tasks.columns import array_of, label_texts, labels_of, stored_labels

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


def test_codes_follow_the_names_and_not_their_order():
    other = Multilabel(tuple(reversed(TASK.names)))
    sets = pa.array([["a", "c"], ["h"]])
    codes = []
    for task in (TASK, other):
        column = stored_labels(task, sets, task.names)
        codes.append(task.codes(array_of(task, column)).tolist())
    assert codes[0] == codes[1]


def test_texts_of_sets_do_not_depend_on_the_order_and_keep_what_is_missing():
    texts = label_texts(TASK, pa.array([["b", "a"], ["a", "b"], [], None, ["ab"]])).to_pylist()
    assert texts[0] == texts[1] != texts[4]
    assert texts[2:4] == ["", None]


@pytest.mark.parametrize("task", [Classification(("a", "b")), Regression(), TASK])
def test_kind_and_names_of_a_record_give_the_task_again(task):
    assert task_with_names(task.names, recorded_kind(task)) == task


def test_label_of_more_rows_than_there_are_is_no_negative_count():
    """A removed label of a reference counts every row of several removed ones."""
    (histogram,) = histograms(Multilabel(("a",)), np.array([12]), 10)
    assert histogram.tolist() == [10, 0]
