"""What single values mean: classes, groups, numbers, sets of names."""

from decimal import Decimal

import pytest

from tuneline.rows.reading.label_values import (
    ValueProblemError,
    class_name,
    group_name,
    indicator,
    label_number,
    listed_names,
    parse_list,
    separated_names,
    written_classes,
)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("1.0", "1"),
        (1.0, "1"),
        (" -2.0 ", "-2"),
        ("2.00", "2.00"),
        (["a"], "a"),
        ("['a']", "a"),
        ([], None),
        ("\\N", None),
        ("none", "none"),
        ("1.5", "1.5"),
        ("007.0", "007.0"),
        (" ", None),
        (True, "true"),
    ],
)
def test_class_is_the_same_however_it_is_written(value, name):
    assert class_name(value) == name


@pytest.mark.parametrize("value", [0.5, Decimal("0.5"), 2.0**53, ["a", "b"], [["a"]], {"a": 1}, b"a"])
def test_what_is_no_class_is_refused(value):
    with pytest.raises(ValueProblemError):
        class_name(value)


def test_ids_of_declared_names_are_names():
    assert [class_name(value, ["joy", "fear"]) for value in (1, 0, -1, None, "joy")] == [
        "fear",
        "joy",
        None,
        None,
        "joy",
    ]
    with pytest.raises(ValueProblemError, match="2 class ids"):
        class_name(2, ["joy", "fear"])


@pytest.mark.parametrize("value", [7, 7.0, "7", " 7\t", Decimal("7.00"), "7.0", " 7.0"])
def test_group_is_the_same_however_it_is_written(value):
    assert group_name(value) == "7"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("007", "007"),
        ("007.0", "007.0"),
        ("7.00", "7.00"),
        ("1.10", "1.10"),
        ("-0.0", "0"),
        ("9007199254740993.0", "9007199254740993"),
        (" ", None),
        (float("nan"), None),
    ],
)
def test_group_keeps_zeros_of_codes_and_all_digits(value, name):
    assert group_name(value) == name


@pytest.mark.parametrize(
    ("value", "number"), [("3.5", 3.5), ("\u22121.25", -1.25), (" 2e-5 ", 2e-5), (7, 7.0)]
)
def test_number_is_read(value, number):
    assert label_number(value) == number


@pytest.mark.parametrize("value", [None, " ", "NA", "nan", "-", float("nan")])
def test_missing_number_is_missing(value):
    assert label_number(value) is None


@pytest.mark.parametrize(
    "value", ["high", "1_000", "1,5", "\u0661", True, [1], "1e39", float("inf"), "45%", "$3", str(2**53 + 1)]
)
def test_what_is_no_number_of_32_bits_is_refused(value):
    with pytest.raises(ValueProblemError):
        label_number(value)


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ('["a", "b"]', ["a", "b"]),
        ("['a', 'b']", ["a", "b"]),
        ("['a' 'b'\n 'c']", ["a", "b", "c"]),
        ("('a',)", ["a"]),
        ("""['it\\'s', "don't"]""", ["it's", "don't"]),
        ("['a, b', 'c']", ["a, b", "c"]),
        ("[]", []),
        ("", []),
    ],
)
def test_lists_as_text_are_those_of_json_and_python(text, elements):
    assert parse_list(text) == elements


@pytest.mark.parametrize("text", ["a", "['a'", "['a']['b']", '{"a": 1}', "[a, b]", "[['a']", "[" * 9999, "1"])
def test_text_that_is_no_list_is_refused(text):
    with pytest.raises(ValueProblemError, match="not a list") as refused:
        parse_list(text)
    assert "flat list" in refused.value.hint


def test_sets_are_sorted_without_repeats_and_empty_names():
    assert separated_names("b; a;;a ;", ";") == ["a", "b"]
    assert separated_names("<b><a>", "><") == ["a", "b"]
    assert separated_names("7.0;(none)", ";") == ["7"]
    assert (separated_names("", ";"), separated_names("?", ";"), separated_names(None, ";")) == (
        [],
        None,
        None,
    )
    assert listed_names(["b", "a", "a"]) == ["a", "b"]
    assert (listed_names([]), listed_names(None), listed_names("?")) == ([], None, None)
    assert listed_names([1, 0], ["joy", "fear"]) == ["fear", "joy"]


@pytest.mark.parametrize("value", [[["b"]], ["b", None], [{"name": "b"}], "b", 7, ["\ud800"]])
def test_list_with_something_else_than_names_is_refused(value):
    with pytest.raises(ValueProblemError) as refused:
        listed_names(value)
    assert refused.value.hint


@pytest.mark.parametrize(("yes", "no"), [("1", "0"), (1.0, 0), ("True", False), ("yes", "No"), ("x", " ")])
def test_words_for_one_and_zero(yes, no):
    assert (indicator(yes), indicator(no)) == (True, False)
    assert [indicator(value) for value in (None, -1, "-1.0", "?", "NA", float("nan"))] == [None] * 6
    with pytest.raises(ValueProblemError):
        indicator("-")


STARS = ("1", "2", "3", "4", "5")


@pytest.mark.parametrize(
    ("names", "observed", "written"),
    [
        (("no", "yes"), {"0", "1"}, ("0", "1")),
        (("no", "yes"), {"1"}, ("0", "1")),
        (("no", "yes"), {"0", "yes"}, ("no", "yes")),
        (("no", "yes"), {"0", "2"}, ("no", "yes")),
        (("no", "yes"), set(), ("no", "yes")),
        (STARS, {"1", "2", "3", "4", "0"}, STARS),
        (STARS, {"0"}, STARS),
        (("10", "2", "x"), {"0", "1", "2"}, ("10", "2", "x")),
    ],
)
def test_labels_are_ids_only_where_no_name_of_a_class_could_be_meant(names, observed, written):
    assert written_classes(names, observed) == written
