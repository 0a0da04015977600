# ruff: noqa: RUF001 (odd characters are what these tests are about)
import pytest

from stages.validate.classes import like_other, name_faults, name_key
from tests.stages.validate.conftest import failed_result
from tuneline.files.schemas import LabelSchema

LONG = "x" * 100_000


@pytest.mark.parametrize("name", ["A", "a.", " a ", "a\u200b", "\ufeffa", "a\x00", "а", "ａ", "'a'", "a\u00ad", "a\u00a0"])
def test_names_that_look_alike_have_the_same_key(name):
    assert name_key(name) == name_key("a")


@pytest.mark.parametrize(
    "pair", [("-1", "1"), ("C", "C++"), (":)", ":("), ("1-2", "12"), ("class 1", "class 2"), ("...", "!"), ("сор", "кот"), ("é", "e")]
)
def test_names_that_look_different_have_different_keys(pair):
    assert name_key(pair[0]) != name_key(pair[1])


def test_rarer_class_is_like_the_more_frequent_one_and_the_odd_character_is_named():
    alike = like_other(["spam", "Spam", "ham", "not_ham", "not ham", "hаm"], [10, 300, 7, 1, 0, 2])
    assert alike == {
        "spam": ["is like class 'Spam' (300 rows in all splits)"],
        "not ham": ["is like class 'not_ham' (1 row in all splits)"],
        "hаm": ["is like class 'ham' (7 rows in all splits), but has CYRILLIC SMALL LETTER A"],
    }


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("Label", "has the name of the label column: a header line became a row"),
        ('\ufeff"label"', "has the name of the label column: a header line became a row"),
        ("NaN", "reads like a missing value; list it in data.label_names if it is a class"),
        (LONG, "has a name of 100,000 characters: a text became a label"),
        ("cafÃ©", "should read 'café'"),
        ("ham\u200b", "has an invisible character, U+200B"),
    ],
)
def test_fault_of_a_name_is_named(name, fault):
    assert next(name_faults(name, "label")) == fault


@pytest.mark.parametrize("name", ["no", "not_equivalent", "-1", "می‌شود", "👩‍👧", "c++", "3 stars", "labels"])
def test_usual_name_has_no_fault(name):
    assert list(name_faults(name, "label")) == []


def test_name_in_data_label_names_is_meant(data, check):
    data.labels = LabelSchema(("none", "yes", "perhaps"))
    names = list(data.labels.names)
    data.set_params(lambda values: values["data"].update(label_names=names))
    assert not check(data).warnings


def test_rows_of_questionable_names_are_shown_with_the_reasons(data, check):
    """A header line has both the names of the text columns and the name of the label column."""
    data.labels = LabelSchema(("no", LONG, data.params.data.label_column))
    data.raw["test"]["one"][7], data.raw["test"]["two"][7] = "one", "\ufeffTwo"
    results = [result for result in check(data.tokenize()).results if result.status != "passed"]
    assert {result.check.key for result in results} == {"class_names"}
    found = {result.split: result for result in results}
    assert found["train"].found == "102 of 200 rows (51 %)"
    column = data.params.data.label_column
    assert found["train"].notes == (
        f"class '{'x' * 60}…' (97 rows) has a name of 100,000 characters: a text became a label",
        f"class '{column}' (5 rows) has the name of the label column: a header line became a row",
    )
    assert found["test"].worst[0].number == 7
    assert found["test"].notes[-1] == "row 7: its texts are the names of the columns; a header line became a row"


def test_rows_of_rare_classes_are_shown_with_the_rows_in_each_split(data, check):
    for split, rows in (("train", (55, 95, 135, 175)), ("validation", (15, 55))):
        for row in rows:
            data.raw[split]["labels"][row] = data.tokenized[split]["labels"][row] = 0
    result = failed_result(check(data))
    assert (result.check.key, result.split, result.found) == ("rare_classes", "train", "1 of 200 rows (0.5 %)")
    assert result.notes == ("class 'perhaps': 1 row in train, 0 rows in validation, 2 rows in test",)
    assert [row.number for row in result.worst] == [15]
