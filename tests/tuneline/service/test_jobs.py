"""Batches of a request, and rows that were tokenized one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exported_pipeline import published_pipeline
from tests.small_pipeline import WORDS
from tuneline import TextClassifier
from tuneline.service.jobs import MOST_TOKENS, joined_rows, row_batches

ROWS = [(" ".join(WORDS[:number]), "came") for number in range(1, len(WORDS))]


@pytest.fixture(scope="module", params=["truncate", "windows"])
def model(request, tmp_path_factory):
    folder = published_pipeline(tmp_path_factory, "classification", request.param) / "models/onnx"
    return TextClassifier.load(folder, threads=1)


def test_joined_rows_are_those_that_are_tokenized_together(model):
    rows = [*ROWS, ("parcel " * 40, "came"), ROWS[0]]
    together = model.encode(rows)
    joined = joined_rows([model.encode([row]) for row in rows])
    assert joined.truncated == together.truncated
    np.testing.assert_array_equal(joined.offsets, together.offsets)
    for name, values in together.values.items():
        np.testing.assert_array_equal(joined.values[name], values)
    np.testing.assert_array_equal(model.logits(joined, 8), model.logits(together, 8))


@given(lengths=st.lists(st.integers(1, 200), min_size=1, max_size=60))
def test_batches_hold_each_row_once_within_the_tokens(model, lengths):
    row = model.encode([ROWS[0]])
    rows = []
    for length in lengths:
        values = {name: np.ones(length, np.int64) for name in row.values}
        rows.append(type(row)(values, np.array([0, length]), 0))
    batches = row_batches(rows)
    assert sorted(number for batch in batches for number in batch.rows) == list(range(len(rows)))
    for batch in batches:
        assert batch.longest == max(lengths[number] for number in batch.rows)
        assert batch.tokens == batch.longest * len(batch.rows)
        assert batch.tokens <= MOST_TOKENS or len(batch.rows) == 1
    assert [batch.longest for batch in batches] == sorted(batch.longest for batch in batches)


def test_rows_are_batches_of_their_own_where_no_tokens_may_share_one(model):
    rows = [model.encode([row]) for row in ROWS]
    assert sorted(batch.rows for batch in row_batches(rows, 0)) == [(number,) for number in range(len(rows))]
