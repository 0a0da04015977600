import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.validate import distributions, text
from tuneline.drift import ks_distance, ks_p_value, merge_bins, normalized, stability_index, stability_p_value, word_counts, words

TEXTS = st.lists(st.tuples(st.text(max_size=40), st.text(alphabet="aB ü!?\u00a0\n1", max_size=20)), min_size=1, max_size=8)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_word_counts_are_those_of_the_data_checks(rows):
    """The profile holds hashes of words: words split in another way would have nothing in common with it."""
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    expected = text.VocabularyCounts.of(text.words([text.normalized(column) for column in columns]))
    hashes, counts = word_counts(words([normalized(column) for column in columns]))
    order = np.argsort(hashes)
    assert hashes[order].tolist() == expected.hashes.tolist()
    assert counts[order].tolist() == expected.counts.tolist()


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=40))
def test_distances_are_those_of_the_data_checks(bins):
    counts, reference = (np.array(column, dtype=np.int64) for column in zip(*bins, strict=True))
    ours, theirs = merge_bins(counts, reference)
    assert [ours.tolist(), theirs.tolist()] == [one.tolist() for one in distributions.merge_bins(counts, reference)]
    index = stability_index(ours, theirs)
    assert index == pytest.approx(distributions.stability_index(ours, theirs))
    assert stability_p_value(index, ours, theirs) == pytest.approx(distributions.stability_p_value(index, ours, theirs))
    distance = ks_distance(counts, reference)
    assert distance == pytest.approx(distributions.ks_distance(counts, reference))
    assert ks_p_value(distance, counts, reference) == pytest.approx(distributions.ks_p_value(distance, counts, reference))
