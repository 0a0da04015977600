import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.scoring.words import word_counts
from stages.validate.text import VocabularyCounts, normalized, words

texts = st.lists(st.tuples(st.text(max_size=40), st.text(alphabet="aB ü!?\u00a0\n1", max_size=20)), min_size=1, max_size=8)


@settings(max_examples=200, deadline=None)
@given(texts)
def test_words_are_counted_as_the_data_checks_count_them(rows):
    """The profile holds hashes of words: another way to cut them would find nothing in common."""
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    theirs = VocabularyCounts.of(words([normalized(column) for column in columns]))
    hashes, counts = word_counts(columns)
    order = np.argsort(hashes)
    assert hashes[order].tolist() == theirs.hashes.tolist()
    assert counts[order].tolist() == theirs.counts.tolist()
