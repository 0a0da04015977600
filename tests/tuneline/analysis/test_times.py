import numpy as np
import pyarrow as pa
import pytest

from tuneline.analysis.times import UNREAD, day, read_times

NOON = 1_709_294_400_000_000  # 2024-03-01 12:00 UTC, in microseconds


def read(*texts):
    return read_times(pa.array(texts, pa.string()))


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-01T12:00:00Z",
        "2024-03-01 13:00:00+01:00",
        "2024-03-01 12:00",
        "2024-03-01 12:00:00 UTC",
        "1709294400",
        "1709294400000",
        "01.03.2024 12:00",
        "1 Mar 2024 12:00:00",
        "Mar 1, 2024 12:00 PM",
        "Fri, 01 Mar 2024 13:00:00 +0100",
        "Fri Mar 01 12:00:00 +0000 2024",
    ],
)
def test_format_is_read_as_the_same_time(text):
    assert read(text, None).values.tolist() == [NOON, UNREAD]


def test_day_and_month_are_told_apart_by_a_value_that_has_no_such_month():
    times = read("03/04/2024", "25/12/2024")
    assert (times.layout, times.rival) == ("%d/%m/%Y", "")
    assert day(times.values[0]) == "2024-04-03"
    assert day(read("03/04/2024", "12/25/2024").values[0]) == "2024-03-04"


def test_day_that_can_be_the_month_is_named_with_both_formats():
    times = read("03/04/2024", "05/06/2024")
    assert {times.layout, times.rival} == {"%d/%m/%Y", "%m/%d/%Y"}
    assert read("03/03/2024", "05/05/2024").rival == ""


def test_value_in_another_format_is_not_read():
    times = read("2024-03-01", "soon", "", None, "2024-03-02")
    assert times.is_read.tolist() == [True, False, False, False, True]


def test_words_are_no_times():
    times = read("a text", "May", "12 apples")
    assert (times.layout, times.is_read.any()) == ("", np.False_)
