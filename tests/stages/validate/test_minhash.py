import random

import numpy as np
import pyarrow as pa
import pytest
from datasketch import MinHash, MinHashLSH

from stages.validate.minhash import PERMUTATIONS, Shingled, band_shape, candidates, minhash, word_pairs
from stages.validate.text import folded, words
from tests.stages.validate.data import sentence


@pytest.fixture
def texts() -> list[str]:
    chance = random.Random(5)
    return [sentence(chance) for _ in range(60)]


def of_library(sets, row: int) -> MinHash:
    sketch = MinHash(num_perm=PERMUTATIONS, scheme="affine32", hashfunc=int)
    sketch.update_batch(sets.row(row).tolist())
    return sketch


def test_signatures_are_those_of_the_library(texts):
    sets = word_pairs(words([folded(pa.array(texts))]))
    assert all(np.array_equal(signature, of_library(sets, row).hashvalues) for row, signature in enumerate(minhash(sets)))


def test_candidates_are_those_of_the_library(texts):
    """Rows that share a band here share a bucket there."""
    changed = [text.replace("a", "e", 1) if row % 2 else text.split(" ", 1)[1] for row, text in enumerate(texts)]
    stock, wanted = (Shingled.of([pa.array(side)], 0.5) for side in (texts, changed))
    index = MinHashLSH(num_perm=PERMUTATIONS, params=band_shape(0.5))
    for row in range(len(texts)):
        index.insert(row, of_library(stock.sets, row))
    theirs = {(row, other) for row in range(len(changed)) for other in index.query(of_library(wanted.sets, row))}
    assert set(zip(*(side.tolist() for side in candidates(wanted.bands, stock.bands)), strict=True)) == theirs
    assert len(theirs) > 30


def test_pairs_of_words_do_not_cross_rows_or_texts():
    one = word_pairs(words([pa.array(["a b", "c d"]), pa.array(["e", "f"])]))
    alone = word_pairs(words([pa.array(["c d"]), pa.array(["f"])]))
    assert one.row(1).tolist() == alone.row(0).tolist()
    assert one.lengths.tolist() == [5, 5]


def test_similarity_is_that_of_the_sets_of_word_pairs():
    both = Shingled.of([pa.array(["a b c d", "a b c e", "a b c d!"])], 0.8)
    pairs = [{"^a", "ab", "bc", "cd", "d$"}, {"^a", "ab", "bc", "ce", "e$"}]
    assert both.jaccard(0, both, 1) == len(pairs[0] & pairs[1]) / len(pairs[0] | pairs[1])
    assert both.jaccard(0, both, 2) == 1


def test_the_order_of_two_texts_does_not_count():
    both = Shingled.of([pa.array(["a b c", "d e"]), pa.array(["d e", "a b c"])], 0.8)
    assert both.jaccard(0, both, 1) == 1


@pytest.mark.parametrize("similarity", [0.5, 0.7, 0.8, 0.9])
def test_the_shape_of_the_index_misses_few_near_duplicates(similarity):
    bands, width = band_shape(similarity)
    assert bands * width <= PERMUTATIONS
    assert 1 - (1 - similarity**width) ** bands > 0.97
