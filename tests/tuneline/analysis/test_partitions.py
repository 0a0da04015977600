import numpy as np
import pytest

from tuneline.analysis import similarity as module
from tuneline.analysis.similarity import partitions


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 500])
def test_partitions_have_every_row_once_and_rows_of_a_key_together(monkeypatch, rows):
    monkeypatch.setattr(module, "PARTITION_ROWS", 8)
    monkeypatch.setattr(module, "HASHES_AT_A_TIME", 3)
    keys = np.random.default_rng(rows).integers(0, 2**64, 100, np.uint64)[np.arange(rows) % 100]
    found = list(partitions(keys))
    assert sorted(np.concatenate(found).tolist()) == list(range(rows))
    assert all((np.diff(part) > 0).all() for part in found)
    of_keys = [set(keys[part].tolist()) for part in found]
    assert sum(map(len, of_keys)) == len(set(keys.tolist())), "a key is in one partition"
    assert rows < 10 or max(map(len, found)) < rows / 4
