import math

import numpy as np
import pytest

from tuneline.core.stage.records import rounded, rounded_numbers, rounded_probabilities, rounded_up, shown


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0.123456789, 0.123457),
        (20_000.123456789, 20_000.123457),
        (0.000234567, 0.000235),
        (-2.34567e-7, -2.35e-7),
        (0.0, 0.0),
        (5e-324, 5e-324),
    ],
)
def test_rounded_number_keeps_six_places_or_three_significant_digits(number, expected):
    assert rounded(number) == expected
    if number != 5e-324:
        assert rounded_numbers(np.array([[number, math.nan]]), 3)[0, 0] == expected


@pytest.mark.parametrize("number", [0.05000000001, 1.2345678e-7, 3.0, 0.0, 20_000.0000004])
def test_rounded_up_number_is_no_smaller(number):
    assert number <= rounded_up(number, 6) <= number * 1.00001 + 1e-6 * (number > 1)


@pytest.mark.parametrize(("number", "text"), [(0.12345, "0.123"), (-2.346e-7, "-2.35e-07"), (0.0, "0.000")])
def test_shown_number_is_0_only_if_it_is(number, text):
    assert shown(number, 3) == text


def test_rounded_probabilities_are_certain_only_if_they_were():
    probabilities = np.array([[0.25, 1 - 1.2345e-9, 1.2345e-9, 1.0, 0.0, 0.0123456789]])
    expected = [0.25, 1 - 1.23e-9, 1.23e-9, 1.0, 0.0, 0.012346]
    assert rounded_probabilities(probabilities)[0].tolist() == expected
