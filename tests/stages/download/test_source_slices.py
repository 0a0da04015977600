"""Slices mean what they mean in the datasets library, and no row gets into two splits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.download.source import SourceSlice, refuse_overlaps, resolve_split
from tuneline.runtime.errors import DataError

ROWS = {"train": 3668, "validation": 408, "extra": 7}


@pytest.mark.parametrize(
    ("spec", "slices"),
    [
        ("train", [SourceSlice("train", 0, 3668)]),
        ("train[:90%]", [SourceSlice("train", 0, 3301)]),
        ("train[100:200]", [SourceSlice("train", 100, 200)]),
        ("train[:10%](pct1_dropremainder)", [SourceSlice("train", 0, 360)]),
        ("extra[:2]+extra[2:2]+extra[5:]", [SourceSlice("extra", 0, 2), SourceSlice("extra", 5, 7)]),
    ],
)
def test_slices_are_those_of_the_datasets_library(spec: str, slices: list[SourceSlice]):
    assert resolve_split("train", spec, ROWS) == slices


@given(cut=st.integers(0, 100), rows=st.integers(1, 10_000))
def test_two_slices_with_one_cut_share_nothing_and_lose_nothing(cut: int, rows: int):
    parts = {}
    for split, spec in (("train", f"train[:{cut}%]"), ("validation", f"train[{cut}%:]")):
        try:
            parts[split] = resolve_split(split, spec, {"train": rows})
        except DataError:
            parts[split] = []
    refuse_overlaps(parts)
    assert sum(part.stop - part.start for found in parts.values() for part in found) == rows


def test_an_overlap_in_a_sum_is_found():
    with pytest.raises(DataError, match="rows 4 to 6 of 'extra'"):
        refuse_overlaps(
            {
                "train": resolve_split("train", "train+extra[4:]", ROWS),
                "test": resolve_split("test", "validation+extra", ROWS),
            }
        )
