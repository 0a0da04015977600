import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from tuneline.checks.analysis.near_duplicates import NO_ROW, first_copies
from tuneline.checks.raw import first_leaks, label_conflicts

KEYS = st.lists(st.integers(0, 8), max_size=20)


def keys(values) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


@given(KEYS)
def test_copy_points_to_the_first_row_with_its_text(values):
    assert first_copies(keys(values)).tolist() == [
        NO_ROW if values.index(key) == row else values.index(key) for row, key in enumerate(values)
    ]


@given(st.lists(KEYS, min_size=1, max_size=3), KEYS)
def test_leak_points_to_the_first_earlier_row_with_its_text(earlier, values):
    before = [key for split in earlier for key in split]
    result = first_leaks([keys(split) for split in earlier], keys(values)).tolist()
    assert result == [before.index(key) if key in before else NO_ROW for key in values]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=20), st.sampled_from([0, 1, 2]))
def test_label_conflict_points_to_a_row_with_the_same_text_and_the_most_different_label(rows, tolerance):
    texts, labels = [key for key, _ in rows], [label for _, label in rows]
    result = label_conflicts(keys(texts), np.array(labels), tolerance)
    for row, (key, label) in enumerate(rows):
        same = [other for other, text in zip(labels, texts, strict=True) if text == key]
        assert (result[row] != NO_ROW) == (max(same) - min(same) > tolerance)
        if result[row] != NO_ROW:
            assert texts[result[row]] == key
            assert abs(labels[result[row]] - label) == max(max(same) - label, label - min(same))
