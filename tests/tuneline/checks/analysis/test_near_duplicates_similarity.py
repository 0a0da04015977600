from math import log, sqrt

import numpy as np
import pyarrow as pa
import pytest

from tuneline.checks.analysis.near_duplicates import WordSets
from tuneline.core.stage.texts import EncodedWords, normalized, words


def word_sets(*rows: str) -> WordSets:
    return WordSets.of([EncodedWords.of(words([normalized(pa.array([row]))])) for row in rows])


def test_similarity_is_the_weight_of_common_words_divided_by_that_of_all():
    """Words are counted once per row, and a word weighs the square root of its inverse document frequency."""
    sets = word_sets("the cat sat", "The cat, the dog!", "the end")
    the, cat, once = (sqrt(log(4 / documents)) for documents in (3, 2, 1))
    both = (the + cat) / (the + cat + once + once)
    assert sets.similarity(np.array([0, 0]), np.array([1, 2])) == pytest.approx(
        [both, the / (the + cat + 3 * once - once)], abs=1e-6
    )
    assert sets.totals[1] == pytest.approx(the + cat + once)


def test_similarity_ignores_the_order_of_words_and_texts():
    pair = [pa.array(["a b c", "e d"]), pa.array(["d e", "c a b"])]
    assert WordSets.of([EncodedWords.of(words(pair))]).similarity(
        np.array([0]), np.array([1])
    ) == pytest.approx(1)
