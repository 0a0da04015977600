import numpy as np

from tuneline.analysis.group_numbers import renumbered


def test_numbers_are_in_the_order_of_the_rows():
    assert renumbered(np.array([9, 2, 9, 5, 2])).tolist() == [0, 1, 0, 2, 1]
