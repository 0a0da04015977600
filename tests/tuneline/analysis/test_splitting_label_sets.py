"""The division of rows that have any number of labels: each label has its share in each split."""

import numpy as np
import pyarrow as pa
import pytest

from tuneline.analysis.splitting import TEST, TRAIN, VALIDATION, assign_splits, hashes, row_hashes
from tuneline.params.data import SplitParams
from tuneline.tasks import Multilabel

NAMES = tuple("abcdefghij")
SHARES = (0.4, 0.35, 0.3, 0.2, 0.15, 0.1, 0.05, 0.02, 0.01, 0.005)
ROWS = 4_000
SPLIT = SplitParams(validation=0.1, test=0.2, stratify=True)


def random_sets(seed: int) -> np.ndarray:
    """Return which rows have which labels, shape ``(rows, labels)``."""
    generator = np.random.default_rng(seed)
    return generator.random((ROWS, len(NAMES))) < np.array(SHARES)


def parts_of(sets: np.ndarray, split: SplitParams = SPLIT) -> np.ndarray:
    names = np.array(NAMES)
    labels = pa.array([names[row].tolist() for row in sets], pa.list_(pa.string()))
    rows = row_hashes([pa.array([f"text {number}" for number in range(len(sets))])], None, 0)
    return assign_splits(rows, hashes(Multilabel.strata(labels)), split)


@pytest.mark.parametrize("seed", range(3))
def test_each_label_has_its_share_of_each_split(seed):
    sets = random_sets(seed)
    parts = parts_of(sets)
    for part, share in ((TRAIN, 0.7), (VALIDATION, 0.1), (TEST, 0.2)):
        inside = sets[parts == part]
        expected = share * sets.sum(axis=0)
        # of the rarest label, its own stratum, the share is exact, rounded; of frequent ones, nearly
        assert np.abs(inside.sum(axis=0) - expected)[-1] < 2
        assert (np.abs(inside.sum(axis=0) - expected) <= 2 + 2 * np.sqrt(expected)).all()
        without = (~sets.any(axis=1)).sum()
        assert abs((~inside.any(axis=1)).sum() - share * without) < 2


def test_rare_labels_miss_their_shares_by_less_than_without_stratification():
    missed = {True: 0.0, False: 0.0}
    for seed in range(10):
        sets = random_sets(seed)
        expected = 0.2 * sets.sum(axis=0)
        for stratify in missed:
            parts = parts_of(sets, SPLIT.model_copy(update={"stratify": stratify}))
            missed[stratify] += np.abs(sets[parts == TEST].sum(axis=0) - expected)[-4:].sum()
    assert missed[True] < 0.6 * missed[False], missed


def test_missing_set_is_no_stratum_and_the_empty_set_is_one():
    strata = Multilabel.strata(pa.array([["a"], [], None, ["a", "b"], ["a"]], pa.list_(pa.string())))
    assert strata.to_pylist() == ["a", "", None, "b", "a"]
