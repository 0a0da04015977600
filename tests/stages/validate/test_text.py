# ruff: noqa: RUF001 (odd characters are what these tests are about)
import re

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from stages.validate.text import BOUNDARY, BROKEN, CONTROL, folded, row_keys, text_keys, unordered_row_keys, words


def keys(*texts: str) -> list[int]:
    return text_keys(folded(pa.array(texts))).tolist()


@pytest.mark.parametrize("other", ["the parcel  is late", " The Parcel is\tlate\n", "THE PARCEL IS LATE", "The ｐａｒｃｅｌ is late"])
def test_texts_that_a_reader_calls_the_same_have_one_key(other):
    assert len(set(keys("The parcel is late", other))) == 1


@pytest.mark.parametrize("other", ["the parcel is late!", "the parcels late", "theparcel is late", ""])
def test_other_texts_have_another_key(other):
    assert len(set(keys("the parcel is late", other))) == 2


def test_keys_are_the_same_in_every_run():
    """They choose the rows of samples and stand in committed profiles."""
    assert keys("the parcel is late") == [14245245225389570147]


def test_the_order_of_two_texts_counts_only_in_ordered_keys():
    one, two = text_keys(pa.array(["a", "b", "c"])), text_keys(pa.array(["b", "a", "c"]))
    ordered, unordered = row_keys([one, two]), unordered_row_keys([one, two])
    assert ordered[0] != ordered[1]
    assert unordered[0] == unordered[1]
    assert len(np.unique(unordered)) == 2


def test_words_are_letters_and_digits_between_boundaries():
    found = words([folded(pa.array(["It's late: 3 days!", "?!"])), folded(pa.array(["", "né"]))])
    b = BOUNDARY
    assert found.to_pylist() == [[b, "it", "s", "late", "3", "days", b, "", b], [b, "?!", b, "né", b]]


@pytest.mark.parametrize(("text", "count"), [("tab\tand\r\nlines", 0), ("bell\x07", 1), ("\x00\x1b", 2), ("c1 \x85\x9f", 2), ("é ü 😀", 0)])
def test_control_characters_are_counted_and_white_space_is_not(text, count):
    assert pc.count_substring_regex(pa.array([text]), CONTROL)[0].as_py() == count


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("naïve café €5 “quoted”", False),
        ("NÃO, SÃO PAULO, Â, Ã", False),
        ("\ufffd", True),
        ("café".encode().decode("latin-1"), True),
        ("“quoted” – it’s".encode().decode("cp1252", errors="replace"), True),
    ],
)
def test_text_read_with_the_wrong_encoding_is_told_from_text_with_accents(text, broken):
    assert bool(pc.count_substring_regex(pa.array([text]), BROKEN)[0].as_py()) is broken


@given(st.text(alphabet="ab1é -,.!\t\n\u3000", max_size=20))
def test_words_are_runs_of_letters_and_digits(text):
    expected = re.findall(r"[^\W_]+", text.casefold()) or None
    (found,) = words([folded(pa.array([text], pa.string()))]).to_pylist()
    assert expected is None or found == [BOUNDARY, *expected, BOUNDARY]
    assert found[0] == found[-1] == BOUNDARY


@given(st.text(alphabet="ab \t\n\r\u00a0\u3000", max_size=12))
def test_folding_leaves_single_spaces(text):
    assert folded(pa.array([text], pa.string())).to_pylist() == [" ".join(text.split())]
