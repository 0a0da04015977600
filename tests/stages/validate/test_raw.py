import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from stages.validate.raw import first_leaks, label_conflicts, read_raw
from tests.params import params
from tuneline.analysis.near_duplicates import NO_ROW, first_copies
from tuneline.core.tables import SplitReader, write_table
from tuneline.tasks import Classification
from tuneline.tasks.schemas import raw_schema

TASK = Classification(("no", "yes"))


@pytest.fixture
def read(tmp_path):
    """Return a function that writes a raw split with two text columns and reads it."""

    def write_and_read(one, two, labels):
        schema = raw_schema(["one", "two"], TASK)
        columns = {"one": one, "two": two, "labels": labels, "idx": range(len(one))}
        write_table(
            pa.table({name: columns[name] for name in schema.names}, schema=schema),
            tmp_path / "train.parquet",
        )
        splits = {"train": SplitReader.open(tmp_path, "train", "download")}
        return read_raw(splits, ["one", "two"], TASK, tmp_path / "derived", params().run)["train"]

    return write_and_read


def test_scalar_columns_count_characters_of_both_texts(read):
    split = read(["ab\x07", " x ", None], ["cde", "Ã¼\ufffd", "z"], [0, 1, 1])
    (frame,) = split.columns.frames(sorted(split.columns.names - {"key", "unordered_key"}))
    assert frame.to_dict("list") == {
        "missing": [0, 0, 1],
        "characters": [6, 6, 1],
        "control_characters": [1, 0, 0],
        "broken_characters": [0, 2, 0],
        "visible_characters": [6, 4, 2],  # a missing text counts as a visible one
        "visible_of_shorter": [3, 1, 1],
        "labels": [0, 1, 1],
        "valid_label": [1, 1, 1],
        "is_header": [False, False, False],
    }


def test_row_keys_are_equal_for_equal_texts_and_unordered_keys_for_swapped_ones(read):
    split = read(["Hello", "hello ", "world"], ["world", "World", "hello"], [0, 0, 0])
    first, same, swapped = (split.columns.column("key")[row] for row in range(3))
    assert first == same != swapped
    assert len(np.unique(split.columns.column("unordered_key"), axis=0)) == 1


def test_vocabulary_counts_the_words_of_all_rows(read):
    split = read(["red apple", "red"], ["pear", "red"], [0, 0])
    other = read(["red"], ["red"], [0])
    assert split.vocabulary.coverage(other.vocabulary.hashes) == pytest.approx(3 / 5)


@pytest.mark.parametrize(
    ("labels", "is_labelled"), [([0, 1], True), ([-1, 1], True), ([-1, -1], False), ([], True)]
)
def test_split_is_unlabelled_if_every_row_is(read, labels, is_labelled):
    texts = ["a"] * len(labels)
    assert read(texts, texts, labels).is_labelled is is_labelled


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
