import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneline.core.tables import SplitReader, write_batches
from tuneline.model.batches import length_sorted_batches
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.tasks import Classification
from tuneline.tasks.schemas import tokenized_schema

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
    assert split.tokens.longest == 4
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


@pytest.mark.parametrize(("answer", "expected"), [("mean", [2, 5]), ("max", [3, 5])])
def test_answer_that_is_stored_with_the_split_is_of_each_document(tmp_path, answer, expected):
    write(tmp_path / "t.parquet", answer=answer)
    rows = TokenizedSplit.read(SplitReader.open(tmp_path, "t", "tokenize"))
    values = np.array([[1], [3], [5]], dtype=np.float32)
    assert rows.answers(values, np.array([0, 1]))[:, 0].tolist() == expected


def test_taken_documents_have_their_windows(split):
    taken = split.take(np.array([2, 0]))
    assert taken.labels.tolist() == [0, 0]
    assert taken.window_counts.tolist() == [3, 2]
    expected = [[10, 11, 0, 0], [11, 12, 13, 14], [14, 0, 0, 0], [5, 6, 7, 0], [7, 8, 0, 0]]
    assert taken.pad(np.arange(2), 0)["input_ids"].tolist() == expected


def test_datasets_library_reads_documents(tmp_path):
    import datasets

    write(tmp_path / "t.parquet")
    data = datasets.Dataset.from_parquet(str(tmp_path / "t.parquet"), cache_dir=str(tmp_path / "cache"))
    assert data[2]["window_lengths"] == [2, 4, 1]
    assert data.features["labels"].names == ["no", "yes"]


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


@given(lengths=st.lists(st.integers(1, 50), max_size=40), batch_size=st.integers(1, 12))
def test_documents_of_one_window_are_in_the_batches_of_rows_without_windows(lengths, batch_size):
    numbers = np.array(lengths, dtype=np.int64)
    batches = length_sorted_batches(numbers, batch_size, np.ones_like(numbers))
    expected = length_sorted_batches(numbers, batch_size)
    assert [batch.tolist() for batch in batches] == [batch.tolist() for batch in expected]
