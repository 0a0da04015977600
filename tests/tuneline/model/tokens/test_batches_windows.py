import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneline.core.stage.tables import SplitReader, write_batches
from tuneline.model.tasks import Classification
from tuneline.model.tasks.columns import tokenized_schema
from tuneline.model.tokens.batches import length_sorted_batches
from tuneline.model.tokens.tokenized_splits import TokenizedSplit

LABELS = Classification(("no", "yes"))
DOCUMENTS = [[[5, 6, 7], [7, 8]], [[9]], [[10, 11], [11, 12, 13, 14], [14]], [[15, 16]]]
"""Token ids of the windows of four documents."""


def write(path, documents=DOCUMENTS, group=3, answer="mean"):
    rows = [[token for window in windows for token in window] for windows in documents]
    columns = {
        "input_ids": rows,
        "attention_mask": [[1] * len(row) for row in rows],
        "window_lengths": [[len(window) for window in windows] for windows in documents],
        "labels": [row % 2 for row in range(len(documents))],
    }
    table = pa.table(columns, schema=tokenized_schema(False, LABELS, answer))
    write_batches(path, table.schema, table.to_batches(max_chunksize=group))


@pytest.fixture
def split(tmp_path):
    """The documents in several files and row groups."""
    write(tmp_path / "t-00000-of-00002.parquet", DOCUMENTS[:3], group=2)
    write(tmp_path / "t-00001-of-00002.parquet", DOCUMENTS[3:])
    return TokenizedSplit.read(SplitReader.open(tmp_path, "t", "tokenize"))


def test_document_is_one_row_with_the_tokens_of_all_its_windows(split):
    assert len(split) == 4
    assert split.lengths.tolist() == [5, 1, 7, 2]
    assert split.window_counts.tolist() == [2, 1, 3, 1]
    assert split.longest == 4
    assert list(split.values) == ["input_ids", "attention_mask"]


def test_each_window_is_padded_as_an_input_of_the_model(split):
    batch = split.pad(np.array([2, 1]), pad_token_id=99)
    assert batch["input_ids"].tolist() == [
        [10, 11, 99, 99],
        [11, 12, 13, 14],
        [14, 99, 99, 99],
        [9, 99, 99, 99],
    ]
    assert batch["attention_mask"].sum(axis=1).tolist() == [2, 4, 1, 1]
    assert split.input_lengths_of(np.array([2, 1])).tolist() == [2, 4, 1, 1]


@given(
    documents=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 6)), max_size=40),
    batch_size=st.integers(1, 12),
)
def test_batch_has_no_more_windows_than_its_size_except_of_one_document(documents, batch_size):
    lengths, windows = np.array(documents, dtype=np.int64).reshape(-1, 2).T
    batches = length_sorted_batches(lengths, batch_size, windows)
    rows = [row for batch in batches for row in batch]
    assert rows == np.argsort(-lengths, kind="stable").tolist()
    assert all(windows[batch].sum() <= batch_size or len(batch) == 1 for batch in batches)
    for batch, following in itertools.pairwise(batches):  # each has as many as possible
        assert windows[batch].sum() + windows[following[0]] > batch_size
