# ruff: noqa: RUF001 (odd characters are what these tests are about)
import re
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from tuneline.analysis import text as text_module
from tuneline.analysis.text import (
    BOUNDARY,
    CONTROL_CLASS,
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


@pytest.mark.parametrize(
    ("text", "count"),
    [("tab\tand\r\nlines", 0), ("bell\x07", 1), ("\x00\x1b", 2), ("c1 \x85\x9f", 2), ("é ü 😀", 0)],
)
def test_control_characters_are_counted_without_white_space(text, count):
    assert pc.count_substring_regex(pa.array([text]), CONTROL_CLASS)[0].as_py() == count


@given(st.text(alphabet="ab1é -,.!\t\n\u3000", max_size=20))
def test_words_are_runs_of_letters_and_digits(text):
    expected = re.findall(r"[^\W_]+", text.casefold()) or None
    (runs,) = words([normalized(pa.array([text], pa.string()))]).to_pylist()
    assert expected is None or runs == [BOUNDARY, *expected, BOUNDARY]
    assert runs[0] == runs[-1] == BOUNDARY


@given(st.text(alphabet="ab \t\n\r\u00a0\u3000", max_size=12))
def test_normalization_leaves_single_spaces(text):
    assert normalized(pa.array([text], pa.string())).to_pylist() == [" ".join(text.split())]


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), max_size=30)


def counted(texts: list[str]) -> VocabularyCounts:
    return VocabularyCounts.of(words([pa.array(texts, pa.string())]))


def expected(texts: list[str]) -> dict[int, int]:
    counts = Counter(word for text in texts for word in text.split())
    keys = text_keys(pa.array(list(counts), pa.string())).tolist()
    return dict(zip(keys, counts.values(), strict=True))


@given(WORDS, WORDS)
def test_sum_of_vocabulary_counts_equals_counts_of_all_texts(one, other):
    texts = [" ".join(one) or "a", " ".join(other) or "a"]
    both = counted(texts[:1]).plus(counted(texts[1:]))
    assert dict(zip(both.hashes.tolist(), both.counts.tolist(), strict=True)) == expected(texts)


def test_coverage_counts_occurrences_and_not_words():
    assert counted(["a a a b"]).coverage(counted(["a"]).hashes) == 0.75


def test_coverage_of_no_words_is_1():
    assert VocabularyCounts.empty().coverage(counted(["a"]).hashes) == 1


def test_most_common_words_are_the_most_frequent():
    counts = counted(["a a a b b c"])
    assert set(counts.most_common(2).tolist()) == set(expected(["a b"]))


def test_vocabulary_counts_are_bounded(monkeypatch):
    """Beyond the limit the rarest words are dropped, and the common ones are kept."""
    monkeypatch.setattr(text_module, "MAX_WORDS", 10)
    total = counted(["a a a"])
    for start in range(0, 60, 6):
        total = total.plus(counted([" ".join(f"w{number}" for number in range(start, start + 6))]))
    assert len(total.hashes) <= 16
    assert total.counts.max() == 3
    assert counted(["a"]).coverage(total.hashes) == pytest.approx(1)
