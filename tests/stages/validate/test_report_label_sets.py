"""The section on the data, where a row can have several labels."""

import re

import numpy as np
import pytest

from stages.validate.report import MAX_CLASSES, index_page, label_shares
from tests.stages.validate.data import TOPICS, good_sets
from tuneline.analysis.drift import Distribution


def test_share_of_a_label_is_of_the_rows_and_not_of_all_labels():
    shares = label_shares(("a", "b"), {"train": Distribution((0.0,), (80, 60))}, {"train": 100})
    assert [(share.name, share.fractions["train"]) for share in shares] == [("a", 0.8), ("b", 0.6)]


def test_labels_without_a_row_of_their_own_are_no_sum():
    """Their rows overlap: the most frequent of them limits the others."""
    counts = tuple(range(100, 70, -1))
    names = [f"label {number}" for number in range(30)]
    shares = label_shares(names, {"train": Distribution(tuple(np.arange(29.0)), counts)}, {"train": 200})
    assert len(shares) == MAX_CLASSES + 1
    assert shares[-1].name == "each of 10 others, at most"
    assert shares[-1].fractions["train"] == pytest.approx(80 / 200)


def test_page_has_the_share_of_each_label_and_how_many_the_rows_have(check):
    data = good_sets()
    page = index_page(check(data))
    section = page[page.index('<section id="data">') : page.index('<section id="passed">')]
    plain = " ".join(re.sub("<[^>]+>", " ", section).split())
    labels = data.raw["train"]["labels"]
    for topic, name in enumerate(TOPICS):
        share = sum(topic in row for row in labels) / len(labels)
        assert f"{name} {100 * share:.1f} %" in plain
    cardinality = sum(map(len, labels)) / len(labels)
    assert f"Labels per row (cardinality) {cardinality:.2f}" in plain
    assert f"Rows without a label {100 * labels.count([]) / len(labels):.3g} %" in plain
