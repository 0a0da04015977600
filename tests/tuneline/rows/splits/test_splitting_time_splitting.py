import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneline.core.params.data import SplitParams
from tuneline.core.runtime.errors import DataError
from tuneline.rows.splits.splitting import (
    TEST,
    TRAIN,
    UNREAD,
    VALIDATION,
    assign_by_time,
    read_times,
    split_by_time,
)

SPLIT = SplitParams(validation=0.1, test=0.2, by_time="created")


@given(times=st.lists(st.integers(0, 30), min_size=3, max_size=200).filter(lambda ts: len(set(ts)) >= 3))
def test_splits_follow_each_other_and_share_no_time(times):
    times = np.array(times)
    parts = assign_by_time(times, SPLIT)
    assert times[parts == TRAIN].max() < times[parts == VALIDATION].min()
    assert times[parts == VALIDATION].max() < times[parts == TEST].min()


DATES = [f"2024-01-{day:02}" for day in range(1, 31)]


def split(texts, complete=None):
    if complete is None:
        complete = np.ones(len(texts), bool)
    return split_by_time(pa.array(texts, pa.string()), complete, SPLIT, lambda row: f"line {row + 2}")


def test_complete_row_without_a_time_is_refused_with_its_place():
    with pytest.raises(DataError, match=r"line 7, column 'created': 'soon' is no time"):
        split([*DATES[:5], "soon", *DATES[5:]])
    complete = np.arange(31) != 5
    assert split([*DATES[:5], None, *DATES[5:]], complete)[5] == TRAIN


NOON = 1_709_294_400_000_000  # 2024-03-01 12:00 UTC, in microseconds


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-01T12:00:00Z",
        "2024-03-01 13:00:00+01:00",
        " 2024-03-01 12:00",
        "1709294400",
        "1709294400000",
        "2024-03-01 12:00:00.000000 UTC",
        "2024-03-01 12:00 GMT",
        "2024-03-01 13:00:00 UTC+01:00",
    ],
)
def test_format_is_read_as_the_same_time(text):
    assert read_times(pa.array([text, None, "soon"])).tolist() == [NOON, UNREAD, UNREAD]


def test_name_of_a_zone_that_can_be_another_is_no_time():
    """CST is six hours behind UTC in America, and eight ahead in China."""
    assert read_times(pa.array(["2024-03-01 12:00 CST", "2024-03-01 12:00 CET"])).tolist() == [UNREAD] * 2


def test_day_that_can_be_the_month_is_refused():
    with pytest.raises(DataError, match="'03/04/2024' is no time; nor are 2 others"):
        split(["03/04/2024", "05/06/2024", "07/08/2024"])
