import random

import numpy as np
import pyarrow as pa
import pytest
from datasketch import MinHash, MinHashLSH

from stages.validate.near_duplicates import PERMUTATIONS, ShingledRows, band_shape, candidates, minhash_signatures, word_pairs
from tests.stages.validate.data import sentence
from tuneline.text import normalized, words


@pytest.fixture
def texts() -> list[str]:
    rng = random.Random(5)
    return [sentence(rng) for _ in range(60)]


def library_minhash(sets, row: int) -> MinHash:
    sketch = MinHash(num_perm=PERMUTATIONS, scheme="affine32", hashfunc=int)
    sketch.update_batch(sets.row(row).tolist())
    return sketch


def test_signatures_equal_those_of_datasketch(texts):
    sets = word_pairs(words([normalized(pa.array(texts))]))
    assert all(np.array_equal(signature, library_minhash(sets, row).hashvalues) for row, signature in enumerate(minhash_signatures(sets)))


def test_candidates_equal_those_of_datasketch(texts):
    """Rows that share a band share a bucket of the library's index."""
    changed = [text.replace("a", "e", 1) if row % 2 else text.split(" ", 1)[1] for row, text in enumerate(texts)]
    corpus, queries = (ShingledRows.of([pa.array(side)], 0.5) for side in (texts, changed))
    index = MinHashLSH(num_perm=PERMUTATIONS, params=band_shape(0.5))
    for row in range(len(texts)):
        index.insert(row, library_minhash(corpus.sets, row))
    theirs = {(row, other) for row in range(len(changed)) for other in index.query(library_minhash(queries.sets, row))}
    assert set(zip(*(side.tolist() for side in candidates(queries.bands, corpus.bands)), strict=True)) == theirs
    assert len(theirs) > 30


def test_word_pairs_do_not_cross_rows_or_texts():
    one = word_pairs(words([pa.array(["a b", "c d"]), pa.array(["e", "f"])]))
    alone = word_pairs(words([pa.array(["c d"]), pa.array(["f"])]))
    assert one.row(1).tolist() == alone.row(0).tolist()
    assert one.lengths.tolist() == [5, 5]


def test_jaccard_compares_sets_of_word_pairs():
    both = ShingledRows.of([pa.array(["a b c d", "a b c e", "a b c d!"])], 0.8)
    pairs = [{"^a", "ab", "bc", "cd", "d$"}, {"^a", "ab", "bc", "ce", "e$"}]
    assert both.jaccard(0, both, 1) == len(pairs[0] & pairs[1]) / len(pairs[0] | pairs[1])
    assert both.jaccard(0, both, 2) == 1


def test_jaccard_ignores_the_order_of_two_texts():
    both = ShingledRows.of([pa.array(["a b c", "d e"]), pa.array(["d e", "a b c"])], 0.8)
    assert both.jaccard(0, both, 1) == 1


@pytest.mark.parametrize("similarity", [0.5, 0.7, 0.8, 0.9])
def test_band_shape_misses_few_near_duplicates(similarity):
    bands, width = band_shape(similarity)
    assert bands * width <= PERMUTATIONS
    assert 1 - (1 - similarity**width) ** bands > 0.97
