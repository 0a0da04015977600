import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneline.core.stage.tables import SplitReader, write_batches
from tuneline.model.tasks import Classification
from tuneline.model.tasks.columns import tokenized_schema
from tuneline.model.tokens.batches import compute_by_length, length_sorted_batches
from tuneline.model.tokens.tokenized_splits import TokenizedSplit

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


def test_pad_pads_on_the_right_to_the_longest_row(split):
    batch = split.pad(np.array([2, 0, 1]), pad_token_id=99)
    assert batch["input_ids"].tolist() == [[9, 10, 99], [5, 6, 7], [8, 99, 99]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1], [1, 0, 0]]
    assert batch["token_type_ids"].tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert {values.dtype for values in batch.values()} == {np.dtype(np.int64)}


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
