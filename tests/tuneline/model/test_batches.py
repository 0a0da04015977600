import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneline.core.tables import SplitReader, write_batches
from tuneline.model.batches import compute_by_length, length_sorted_batches
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.tasks import Classification
from tuneline.tasks.schemas import tokenized_schema

LABELS = Classification(("no", "yes"))


def write(path, ids, group=3):
    """Write rows in several row groups."""
    columns = {
        "input_ids": ids,
        "attention_mask": [[1] * len(row) for row in ids],
        "token_type_ids": [[0] * (len(row) - 1) + [1] for row in ids],
        "labels": [row % 2 for row in range(len(ids))],
    }
    table = pa.table(columns, schema=tokenized_schema(True, LABELS))
    write_batches(path, table.schema, table.to_batches(max_chunksize=group))


@pytest.fixture
def split(tmp_path):
    write(tmp_path / "t.parquet", [[5, 6, 7], [8], [9, 10], [11, 12, 13, 14], [15, 16]])
    return TokenizedSplit.read(SplitReader.open(tmp_path, "t", "tokenize"))


def test_split_is_read_from_all_row_groups(split):
    assert len(split) == 5
    assert split.lengths.tolist() == [3, 1, 2, 4, 2]
    assert (split.labels.tolist(), split.task) == ([0, 1, 0, 1, 0], LABELS)


def test_pad_pads_on_the_right_to_the_longest_row(split):
    batch = split.pad(np.array([2, 0, 1]), pad_token_id=99)
    assert batch["input_ids"].tolist() == [[9, 10, 99], [5, 6, 7], [8, 99, 99]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1], [1, 0, 0]]
    assert batch["token_type_ids"].tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert {values.dtype for values in batch.values()} == {np.dtype(np.int64)}


def test_empty_split_is_read(tmp_path):
    write(tmp_path / "empty.parquet", [])
    split = TokenizedSplit.read(SplitReader.open(tmp_path, "empty", "tokenize"))
    assert len(split) == 0
    assert length_sorted_batches(split.lengths, 4) == []


def test_rows_beyond_2_to_the_31_tokens_are_padded_and_taken(tmp_path):
    """In a sparse file: it takes no room on the disk."""
    start = 2**31 + 5
    ids = np.memmap(tmp_path / "ids", dtype=np.int32, mode="w+", shape=(start + 3,))
    ids[start:] = [7, 8, 9]
    rows = TokenizedSplit({"input_ids": ids}, np.array([0, start, start + 3]), np.array([0, 1]), LABELS)
    last = np.array([1], dtype=np.uint8)
    assert rows.lengths_of(last).tolist() == [3]
    assert rows.pad(last, 0)["input_ids"].tolist() == [[7, 8, 9]]
    assert rows.take(last).values["input_ids"].tolist() == [7, 8, 9]


@given(lengths=st.lists(st.integers(1, 50), max_size=60), size=st.integers(1, 20))
def test_every_row_is_in_one_batch_and_the_longest_are_first(lengths, size):
    batches = length_sorted_batches(np.array(lengths, dtype=np.int64), size)
    rows = [row for batch in batches for row in batch]
    assert sorted(rows) == list(range(len(lengths)))
    assert [lengths[row] for row in rows] == sorted(lengths, reverse=True)
    assert all(len(batch) == size for batch in batches[:-1])


def test_long_rows_are_in_smaller_batches():
    lengths = np.array([8192] + [2048] * 5 + [1024] * 20 + [512] * 80, dtype=np.int64)
    assert list(map(len, length_sorted_batches(lengths, 64))) == [1, 4, 4, 16, 16, 64, 1]


def test_windows_of_long_inputs_are_in_smaller_batches():
    lengths = np.array([8192] * 4 + [600] * 4, dtype=np.int64)
    windows = np.array([8] * 4 + [1] * 4)
    batches = [batch.tolist() for batch in length_sorted_batches(lengths, 32, windows)]
    assert batches == [[0], [1], [2], [3], [4, 5, 6, 7]]


@given(lengths=st.lists(st.integers(1, 3), min_size=1, max_size=30))
def test_rows_of_the_same_length_keep_their_order(lengths):
    rows = [row for batch in length_sorted_batches(np.array(lengths), 4) for row in batch.tolist()]
    for length in set(lengths):
        same = [row for row in rows if lengths[row] == length]
        assert same == sorted(same)


@given(lengths=st.lists(st.integers(1, 50), max_size=60), size=st.integers(1, 20))
def test_outputs_are_in_the_order_of_the_rows_and_computed_in_length_sorted_batches(lengths, size):
    rows = np.array(lengths, dtype=np.int64)
    batches = []

    def compute(batch):
        batches.append(batch.tolist())
        return np.stack([batch, rows[batch]], axis=1).astype(np.float32)

    out = np.full((len(rows), 2), np.nan, dtype=np.float32)
    assert compute_by_length(compute, rows, size, out) is out
    np.testing.assert_array_equal(out, np.stack([np.arange(len(rows)), rows], axis=1))
    assert batches == [batch.tolist() for batch in length_sorted_batches(rows, size)]


def test_row_that_is_computed_twice_or_not_at_all_is_an_error(monkeypatch):
    monkeypatch.setattr(
        "tuneline.model.batches.length_sorted_batches",
        lambda lengths, size, windows: [np.arange(44), np.array([0])],
    )
    out = np.zeros((45, 1), dtype=np.float32)
    with pytest.raises(AssertionError, match="2 rows of 45"):
        compute_by_length(lambda batch: np.zeros((len(batch), 1), np.float32), np.ones(45), 16, out)
