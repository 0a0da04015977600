from collections import Counter

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from stages.validate import lexicon
from stages.validate.lexicon import Lexicon
from stages.validate.text import text_keys, words

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), max_size=30)


def counted(texts: list[str]) -> Lexicon:
    return Lexicon.of(words([pa.array(texts, pa.string())]))


def expected(texts: list[str]) -> dict[int, int]:
    counts = Counter(word for text in texts for word in text.split())
    keys = text_keys(pa.array(list(counts), pa.string())).tolist()
    return dict(zip(keys, counts.values(), strict=True))


@given(WORDS, WORDS)
def test_batches_together_count_what_they_count_alone(one, other):
    texts = [" ".join(one) or "a", " ".join(other) or "a"]
    both = counted(texts[:1]).plus(counted(texts[1:]))
    assert dict(zip(both.hashes.tolist(), both.counts.tolist(), strict=True)) == expected(texts)


def test_a_share_counts_occurrences_and_not_words():
    assert counted(["a a a b"]).share_in(counted(["a"]).hashes) == 0.75


def test_a_split_without_words_knows_them_all():
    assert Lexicon.empty().share_in(counted(["a"]).hashes) == 1


def test_the_commonest_words_are_kept():
    found = counted(["a a a b b c"])
    assert set(found.most_common(2).tolist()) == set(expected(["a b"]))


def test_memory_has_a_bound(monkeypatch):
    """Beyond the limit the rarest words are forgotten, and the common ones are not."""
    monkeypatch.setattr(lexicon, "LIMIT", 10)
    total = counted(["a a a"])
    for start in range(0, 60, 6):
        total = total.plus(counted([" ".join(f"w{number}" for number in range(start, start + 6))]))
    assert len(total.hashes) <= 16
    assert total.counts.max() == 3
    assert counted(["a"]).share_in(total.hashes) == pytest.approx(1)
