"""What the rows of validation say of two trainings."""

import pytest

from tuneline.experiments.validation import describe_difference


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (0.01, 0.09, "+0.050"),
        (-0.09, -0.03, "-0.060"),
        (-0.02, 0.05, "+0.015, cannot be told apart on 151 rows"),
        (-0.004, 0.008, "+0.002, equal within 0.01"),
    ],
)
def test_not_seen_to_be_better_is_not_equal(low, high, message):
    assert describe_difference((low + high) / 2, low, high, rows=151) == message
