import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneline.predict import BAD_ROW_OPTIONS
from tuneline.predict.skipped_rows import REPORTED
from tuneline.predict.streaming import WINDOW_CHARACTERS, good_rows, windows
from tuneline.readers.inputs import BadRow, InputColumns, InputRows, Row
from tuneline.readers.rows import BadRowPolicy, BadRows, RowProblem
from tuneline.runtime.errors import DataError


def rows_of(texts):
    return [Row(number, (text,), {}) for number, text in enumerate(texts, start=1)]


@given(
    rows=st.lists(st.text(max_size=3), max_size=300).map(rows_of),
    first=st.integers(1, 50),
    most=st.integers(1, 100),
)
def test_windows_hold_every_row_once_in_order_up_to_the_limit(rows, first, most):
    found = list(windows(iter(rows), first, most))
    assert [row for window in found for row in window] == rows
    assert all(1 <= len(window) <= most for window in found)


def test_windows_double_up_to_the_largest():
    assert [len(window) for window in windows(iter(rows_of("x" * 100)), 4, 20)] == [4, 8, 16, 20, 20, 20, 12]


def test_window_of_long_rows_has_few():
    rows = rows_of(["x" * (WINDOW_CHARACTERS // 3)] * 7)
    assert [len(window) for window in windows(iter(rows), 32, 4096)] == [4, 3]
    kept = [Row(row.number, ("x",), {"body": row.texts[0]}) for row in rows]
    assert [len(window) for window in windows(iter(kept), 32, 4096)] == [3, 3, 1]


def every_second_row_bad(count):
    def row(number):
        return (
            BadRow(number, RowProblem(number, "broken", "Correct it."))
            if number % 2
            else Row(number, ("a",), {})
        )

    return InputRows(InputColumns(("text",), ()), map(row, range(1, count + 1)), "line")


def test_first_bad_row_stops():
    with pytest.raises(DataError, match=r"row 1 \(line 1\)"):
        list(
            good_rows(
                every_second_row_bad(4),
                BadRows("in.csv", "line", BadRowPolicy("stop", 1.0, *BAD_ROW_OPTIONS)),
            )
        )


def test_skipped_rows_are_counted_and_the_first_ones_reported(capsys):
    bad = BadRows("in.csv", "line", BadRowPolicy("skip"))
    rows = list(good_rows(every_second_row_bad(100), bad))
    assert [row.number for row in rows] == list(range(2, 101, 2))
    assert bad.count == 50
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == REPORTED + 1
    assert lines[0] == "skipped row 1 (line 1): broken"
