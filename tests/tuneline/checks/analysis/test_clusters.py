import numpy as np
import pyarrow as pa
import pytest

from tuneline.checks.analysis.clusters import cluster_splits, cluster_texts
from tuneline.checks.analysis.near_duplicates import NO_ROW

STORY = "the parcel with the blue lamp arrived broken and nobody answers my calls about it since monday"


def links(*rows: int) -> np.ndarray:
    return np.array(rows, np.int32)


def keys(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def test_equal_texts_are_one_cluster_whatever_their_case_and_order():
    first = pa.array(["How old are you?", "what is  your age", "Where do you live"])
    second = pa.array(["What is your age", "how old are YOU?", "Where do you work"])
    assert cluster_texts([first, second], 0.9).tolist() == [0, 0, 1]


def test_nearly_equal_texts_are_one_cluster():
    texts = [STORY, "another text about refunds", STORY.replace("monday", "friday"), f"{STORY} please help"]
    assert cluster_texts([pa.array(texts)], 0.5).tolist() == [0, 1, 0, 0]


def test_rows_that_resemble_one_row_of_train_are_one_cluster():
    train, test = cluster_splits([keys(1, 2), keys(3, 4, 5)], [links(-1, -1), links(0, -1, 0)], [None, None])
    assert train.tolist() == [0, 1]
    assert test.tolist() == [0, 1, 0]


def test_rows_of_a_group_are_one_cluster_and_groups_of_two_splits_are_not():
    without = [links(NO_ROW, NO_ROW, NO_ROW), links(NO_ROW, NO_ROW)]
    groups = [np.array([0, 1, 0]), np.array([0, 1])]
    train, test = cluster_splits([keys(1, 2, 3), keys(4, 5)], without, groups)
    assert train.tolist() == [0, 1, 0]
    assert test.tolist() == [0, 1]


def test_groups_that_share_a_text_are_one_cluster():
    (clusters,) = cluster_splits([keys(1, 2, 2, 3)], [links(-1, -1, -1, -1)], [np.array([0, 0, 1, 1])])
    assert clusters.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("sample", [5])
def test_texts_of_unlike_words_are_clusters_of_their_own(sample):
    random = np.random.default_rng(sample)
    lexicon = np.array([f"word{number}" for number in range(2_000)])
    texts = [" ".join(random.choice(lexicon, 12)) for _ in range(500)]
    assert len(np.unique(cluster_texts([pa.array(texts)], 0.5))) == 500
