"""What the rows of validation say of two trainings."""

import pytest

from tuneline.experiments.validation import ScoreDifference


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.01, 0.09, "clearly different"),
        (-0.09, -0.02, "clearly different"),
        (-0.02, 0.05, "cannot be told apart on 151 rows"),
        (-0.004, 0.009, "equal within 0.01"),
    ],
)
def test_not_seen_to_be_better_is_not_equal(low, high, verdict):
    assert ScoreDifference((low + high) / 2, low, high, rows=151).verdict == verdict
