import numpy as np

from stages.validate.near_duplicates import NO_ROW, first_copies, first_leaks, label_conflicts
from tuneline.analysis import similarity


def test_partitions_change_no_result(monkeypatch):
    """``test_raw`` has what the results are."""
    rng = np.random.default_rng(1)
    texts = rng.integers(0, 2**64, 300, np.uint64)
    keys, other = texts[rng.integers(0, 300, 700)], texts[rng.integers(100, 300, 200)]
    labels = rng.integers(0, 3, 700)

    def results() -> list[np.ndarray]:
        return [
            first_copies(keys),
            label_conflicts(keys, labels, 0),
            first_leaks([keys[:400], keys[400:]], other),
        ]

    whole = results()
    assert all((found != NO_ROW).any() and (found == NO_ROW).any() for found in whole)
    monkeypatch.setattr(similarity, "PARTITION_ROWS", 10)
    for one, found in zip(whole, results(), strict=True):
        np.testing.assert_array_equal(one, found)
