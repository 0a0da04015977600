# ruff: noqa: RUF001 (odd characters are what these tests are about)
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from tuneline.core.stage.texts import (
    BOUNDARY,
    EncodedWords,
    VocabularyCounts,
    combined_keys,
    normalized,
    text_keys,
    unordered_row_keys,
    words,
)


def keys(*texts: str) -> list[int]:
    return text_keys(normalized(pa.array(texts))).tolist()


@pytest.mark.parametrize(
    "other",
    ["the parcel  is late", " The Parcel is\tlate\n", "THE PARCEL IS LATE", "The ｐａｒｃｅｌ is late"],
)
def test_texts_that_differ_in_case_or_spaces_only_have_the_same_key(other):
    assert len(set(keys("The parcel is late", other))) == 1


@pytest.mark.parametrize("other", ["the parcel is late!", "the parcels late", "theparcel is late", ""])
def test_different_texts_have_different_keys(other):
    assert len(set(keys("the parcel is late", other))) == 2


def test_keys_are_the_same_in_every_run():
    """They select the rows of samples and are part of committed profiles."""
    assert keys("the parcel is late") == [14245245225389570147]


def test_order_of_two_texts_changes_ordered_keys_only():
    one, two = text_keys(pa.array(["a", "b", "c"])), text_keys(pa.array(["b", "a", "c"]))
    ordered, unordered = combined_keys([one, two]), unordered_row_keys([one, two])
    assert ordered[0] != ordered[1]
    assert unordered[0] == unordered[1]
    assert len(np.unique(unordered)) == 2


def test_words_consist_of_letters_and_digits_between_boundaries():
    runs = words([normalized(pa.array(["It's late: 3 days!", "?!"])), normalized(pa.array(["", "né"]))])
    b = BOUNDARY
    assert runs.to_pylist() == [[b, "it", "s", "late", "3", "days", b, "", b], [b, "?!", b, "né", b]]


@given(st.text(alphabet="ab \t\n\r\u00a0\u3000", max_size=12))
def test_normalization_leaves_single_spaces(text):
    assert normalized(pa.array([text], pa.string())).to_pylist() == [" ".join(text.split())]


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), max_size=30)


def expected(texts: list[str]) -> dict[int, int]:
    counts = Counter(word for text in texts for word in text.split())
    keys = text_keys(pa.array(list(counts), pa.string())).tolist()
    return dict(zip(keys, counts.values(), strict=True))


@given(WORDS, WORDS)
def test_sum_of_vocabulary_counts_equals_counts_of_all_texts(one, other):
    texts = [" ".join(one) or "a", " ".join(other) or "a"]
    both = VocabularyCounts.of(EncodedWords.of(words([pa.array([text])])) for text in texts)
    assert dict(zip(both.hashes.tolist(), both.counts.tolist(), strict=True)) == expected(texts)
