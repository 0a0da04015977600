# ruff: noqa: RUF001 (odd characters are what these tests are about)
import pytest

from tuneline.checks.classes import like_other, name_faults, name_key

LONG = "x" * 100_000


@pytest.mark.parametrize(
    "name",
    [
        "A",
        "a\u200b",
        "ａ",
        "'a'",
        "a\u00ad",
    ],
)
def test_names_that_look_alike_have_the_same_key(name):
    assert name_key(name) == name_key("a")


@pytest.mark.parametrize(
    "pair",
    [
        ("❤", "❤\ufe0f"),
        ("İade", "iade"),
        ("ISLAK", "ıslak"),
        ("شكاوي", "شکاوی"),
        ("شـــكر", "شكر"),
        ("شُكر", "شكر"),
        ("٣", "۳"),
        ("don’t", "don't"),
        ("don´t", "don't"),
        ("−1", "-1"),
        ("ОК", "OK"),
        ("ΤΟΚΟΣ", "TOKOΣ"),
        ("e\u0301tat", "état"),
    ],
)
def test_two_names_that_look_alike_have_the_same_key(pair):
    assert name_key(pair[0]) == name_key(pair[1])


@pytest.mark.parametrize(
    "pair",
    [
        ("-1", "1"),
        ("сор", "кот"),
        ("é", "e"),
        ("ขาว", "ข่าว"),
        ("कल", "कुल"),
        ("5 μm", "5 mm"),
        ("👍🏻", "👍🏿"),
    ],
)
def test_names_that_look_different_have_different_keys(pair):
    assert name_key(pair[0]) != name_key(pair[1])


def test_rarer_class_is_like_the_more_frequent_one():
    alike = like_other(["spam", "Spam", "ham", "not_ham", "not ham"], [10, 300, 7, 1, 0])
    assert alike == {
        "spam": ["is like class 'Spam' (300 rows in all splits)"],
        "not ham": ["is like class 'not_ham' (1 rows in all splits)"],
    }


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("Label", "has the name of the label column: a header line became a row"),
        ("NaN", "reads like a missing value; list it in data.label_names if it is a class"),
        (LONG, "has a name of 100,000 characters: a text became a label"),
        ("cafÃ©", "should read 'café'"),
    ],
)
def test_fault_of_a_name_is_named(name, fault):
    assert next(name_faults(name, "label")) == fault


@pytest.mark.parametrize("name", ["no", "می‌شود", "👩‍👧", "labels"])
def test_usual_name_has_no_fault(name):
    assert list(name_faults(name, "label")) == []
