import pytest

from tuneline.cli.init.split_fractions import usual_split


@pytest.mark.parametrize(
    ("rows", "validation", "test"),
    [
        (40, 0.15, 0.3),
        (1_000, 0.15, 0.3),
        (1_300, 0.12, 0.24),
        (2_000, 0.1, 0.15),
        (3_000, 0.1, 0.1),
        (10**6, 0.1, 0.1),
    ],
)
def test_small_files_give_a_larger_part_to_validation_and_test(rows, validation, test):
    split = usual_split(rows)
    assert (split.validation, split.test) == (validation, test)
