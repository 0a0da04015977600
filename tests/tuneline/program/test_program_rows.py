from hypothesis import given
from hypothesis import strategies as st

from tuneline.program.program_rows import WINDOW_CHARACTERS, windows
from tuneline.readers.inputs import Row


@given(rows=st.lists(st.text(max_size=3), max_size=300), first=st.integers(1, 50), most=st.integers(1, 100))
def test_windows_hold_every_row_once_in_order_up_to_the_limit(rows, first, most):
    found = list(windows(rows, first, most, len))
    assert [row for window in found for row in window] == rows
    assert all(1 <= len(window) <= most for window in found)


def test_windows_double_up_to_the_largest():
    assert [len(window) for window in windows("x" * 100, 4, 20, len)] == [4, 8, 16, 20, 20, 20, 12]


def test_window_of_long_rows_has_few():
    rows = ["x" * (WINDOW_CHARACTERS // 3)] * 7
    assert [len(window) for window in windows(rows, 32, 4096, len)] == [4, 3]
    kept = [Row(number, ("x",), {"body": text}) for number, text in enumerate(rows)]
    lengths = [len(window) for window in windows(kept, 32, 4096, lambda row: row.characters)]
    assert lengths == [3, 3, 1]
