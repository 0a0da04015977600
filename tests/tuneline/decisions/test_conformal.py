"""The interval around a number holds as often as it says."""

import numpy as np

from tuneline.decisions.conformal import half_width


def test_nine_of_ten_new_numbers_are_within_the_interval():
    random = np.random.default_rng(0)
    held = []
    for _ in range(2000):
        errors = random.standard_t(3, 100)
        width = half_width(errors[:99], np.zeros(99))
        held.append(abs(errors[99]) <= width)
    assert 0.885 < np.mean(held) < 0.915


def test_few_rows_have_no_interval():
    assert half_width(np.arange(8.0), np.zeros(8)) is None
    assert half_width(np.arange(9.0), np.zeros(9)) == 8.0
