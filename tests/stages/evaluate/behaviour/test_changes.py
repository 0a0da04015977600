import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.evaluate.behaviour.changes import apply, negate, typo
from stages.evaluate.behaviour.suite import Append, Prepend, Replace

PAIR = ("Where is it?", "The parcel is missing.")


@settings(deadline=None)
@given(st.text(max_size=60))
def test_a_typo_swaps_two_letters_inside_a_word_or_nothing(text):
    changed = typo(text)
    assert sorted(changed) == sorted(text)
    different = [place for place, (one, other) in enumerate(zip(text, changed, strict=True)) if one != other]
    assert different == [] or (len(different) == 2 and different[1] == different[0] + 1)
    if different:
        word = text[: different[0]].split()[-1:] and text[different[0] - 1]
        assert word.isalpha()
    assert typo(text) == changed


def test_a_typo_keeps_first_and_last_letters():
    assert typo("word") == "wrod"
    assert typo("aaaa 123 to") == "aaaa 123 to"


@pytest.mark.parametrize(
    ("text", "negated"),
    [
        ("The parcel is missing.", "The parcel is not missing."),
        ("It WAS late and is here", "It WAS not late and is here"),
        ("It is not here", "It is not here"),
        ("They sold it", "They sold it"),
        ("This island", "This island"),
    ],
)
def test_negation_stands_behind_the_first_auxiliary(text, negated):
    assert negate(text) == negated


@pytest.mark.parametrize(
    ("change", "where", "changed"),
    [
        ("swap_texts", None, (PAIR[1], PAIR[0])),
        ("same_text", None, (PAIR[0], PAIR[0])),
        ("lower_case", None, ("where is it?", "the parcel is missing.")),
        ("upper_case", "first", ("WHERE IS IT?", PAIR[1])),
        ("no_final_punctuation", None, ("Where is it", "The parcel is missing")),
        ("negate", None, (PAIR[0], "The parcel is not missing.")),
        ("negate", "all", ("Where is not it?", "The parcel is not missing.")),
        (Append(append="Thanks."), None, (PAIR[0], "The parcel is missing. Thanks.")),
        (Append(append="Thanks."), "first", ("Where is it? Thanks.", PAIR[1])),
        (Prepend(prepend="Hello,"), None, (PAIR[0], "Hello, The parcel is missing.")),
        (Replace(replace={"is": "was", "parcel": "box"}), None, ("Where was it?", "The box was missing.")),
        (Replace(replace={"is": "parcel", "parcel": "is"}), "last", (PAIR[0], "The is parcel missing.")),
    ],
)
def test_a_change_is_made_where_it_was_asked_for(change, where, changed):
    assert apply(change, PAIR, where) == changed


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ("swap_texts", ("a", "a")),
        ("lower_case", ("a",)),
        ("negate", ("They sold it",)),
        (Replace(replace={"is": "was"}), ("This",)),
        ("typo", ("a b",)),
    ],
)
def test_a_row_with_nothing_to_change_is_no_case(change, texts):
    assert apply(change, texts, None) is None


def test_replacing_takes_words_literally():
    assert apply(Replace(replace={"a.b": "x"}), ("a.b acb",), None) == ("x acb",)
