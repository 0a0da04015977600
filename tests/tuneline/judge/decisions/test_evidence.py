"""Rows that promise: one of each cluster, and no text."""

import numpy as np
import pyarrow.parquet as pq

from tuneline.judge.decisions.evidence import (
    MOST_ROWS,
    Evidence,
    JudgedAnswers,
    independent_sample,
    read_evidence,
    write_evidence,
)


def test_one_row_of_each_cluster_counts_and_it_is_drawn_by_chance():
    clusters = np.repeat(np.arange(40), 15)
    rows = independent_sample(clusters, 600)
    assert len(rows) == 40
    assert (np.diff(rows) > 0).all()
    assert sorted(clusters[rows]) == list(range(40))
    assert len(set(rows % 15)) > 5, "not always the first row of a cluster"
    assert (independent_sample(clusters, 600) == rows).all()


def test_rows_on_their_own_all_count_up_to_a_limit():
    assert independent_sample(None, 7).tolist() == list(range(7))
    many = independent_sample(None, MOST_ROWS + 1000)
    assert len(many) == MOST_ROWS
    assert many.max() > MOST_ROWS - 1, "also of the last rows"


def test_evidence_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "evidence.parquet"
    promising = JudgedAnswers(np.array([0, 1], np.int32), np.array([0.9, 0.6]), np.array([True, False]))
    choosing = JudgedAnswers(np.array([1], np.int32), np.array([0.7]), np.array([True]))
    other = Evidence(choosing, promising)
    write_evidence(path, {"fp32": Evidence(promising, choosing), "int8": other})
    evidence = read_evidence(path, "fp32")
    assert evidence.promising.confidence.tolist() == [0.9, 0.6]
    assert evidence.promising.right.tolist() == [True, False]
    assert evidence.choosing.answers.tolist() == [1]
    assert set(pq.read_schema(path).names) == {"precision", "promises", "answer", "confidence", "right"}
