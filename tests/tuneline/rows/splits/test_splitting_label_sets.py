"""The division of rows that have any number of labels: each label has its share in each split."""

import numpy as np
import pyarrow as pa
import pytest

from tuneline.core.params.data import SplitParams
from tuneline.model.tasks import Multilabel
from tuneline.rows.splits.splitting import TEST, TRAIN, VALIDATION, assign_splits, row_hashes, strata

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
    return assign_splits(rows, strata(Multilabel(()), labels), split)


@pytest.mark.parametrize("seed", range(1))
def test_each_label_has_its_share_of_each_split(seed):
    sets = random_sets(seed)
    parts = parts_of(sets)
    for part, share in ((TRAIN, 0.7), (VALIDATION, 0.1), (TEST, 0.2)):
        inside = sets[parts == part]
        missed = np.abs(inside.sum(axis=0) - share * sets.sum(axis=0))
        # The rarest one is divided first: its share is exact, rounded.
        assert missed[-1] < 2
        assert (missed <= 2 + 0.03 * sets.sum(axis=0)).all(), missed
        without = (~sets.any(axis=1)).sum()
        assert abs((~inside.any(axis=1)).sum() - share * without) < 2


def test_added_rows_move_hardly_a_row_between_train_and_test():
    sets = random_sets(0)
    before = parts_of(sets[:1000])
    for rows in range(1100, 2000, 200):
        after = parts_of(sets[:rows])[:1000]
        moves = list(zip(before.tolist(), after.tolist(), strict=True))
        assert moves.count((TRAIN, TEST)) + moves.count((TEST, TRAIN)) <= 2
        assert np.mean(before != after) < 0.1
