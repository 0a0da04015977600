import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneline.cli.predict.rows import BadRow, Row
from tuneline.cli.predict.streaming import NAMED, Tally, good_rows, windows
from tuneline.errors import DataError


class Said:
    """Stands where the progress bar does, and keeps what it is told."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


@given(rows=st.lists(st.integers(), max_size=300), first=st.integers(1, 50), most=st.integers(1, 100))
def test_windows_hold_every_row_once_in_order_and_never_too_many(rows, first, most):
    found = list(windows(iter(rows), first, most))
    assert [row for window in found for row in window] == rows
    assert all(1 <= len(window) <= most for window in found)


def test_windows_double_up_to_the_largest():
    assert [len(window) for window in windows(iter(range(100)), 4, 20)] == [4, 8, 16, 20, 20, 20, 12]


def mixed(count):
    return [BadRow(number, f"line {number}", "broken") if number % 2 else Row(number, ("a",), {}) for number in range(1, count + 1)]


def test_the_first_bad_row_stops():
    with pytest.raises(DataError, match=r"row 1 \(line 1\): broken"):
        list(good_rows(iter(mixed(4)), "stop", Tally(), Said()))


def test_skipped_rows_are_counted_and_the_first_of_them_named():
    said, tally = Said(), Tally()
    rows = list(good_rows(iter(mixed(100)), "skip", tally, said))
    assert [row.number for row in rows] == list(range(2, 101, 2))
    assert tally.skipped == 50
    assert len(said.lines) == NAMED + 1
    assert said.lines[0] == "skipped row 1 (line 1): broken"
