# ruff: noqa: RUF001 (odd characters are what these tests are about)
import pytest

from stages.validate.classes import like_other, name_faults, name_key
from tuneline.tasks import Classification, Regression

LONG = "x" * 100_000


@pytest.mark.parametrize(
    "name", ["A", "a.", " a ", "a\u200b", "\ufeffa", "a\x00", "ａ", "'a'", "a\u00ad", "a\u00a0"]
)
def test_names_that_look_alike_have_the_same_key(name):
    assert name_key(name) == name_key("a")


@pytest.mark.parametrize(
    "pair",
    [
        ("-1", "1"),
        ("C", "C++"),
        (":)", ":("),
        ("1-2", "12"),
        ("class 1", "class 2"),
        ("...", "!"),
        ("сор", "кот"),
        ("é", "e"),
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


def test_columns_and_notes_of_questionable_names(data, tables):
    """A header line has both the names of the text columns and the name of the label column."""
    column = data.params.data.label_column
    data.labels = Classification(("nan", LONG, column))
    data.raw["test"]["one"][7], data.raw["test"]["two"][7] = "one", "\ufeffTwo"
    data.raw["test"]["one"][8] = "one"  # the other text of the row is none
    found = tables(data)
    assert found["train"].columns.column("name_faults").tolist() == [1] * 200
    assert found["train"].notes["class_names"] == [
        "class 'nan' reads like a missing value; list it in data.label_names if it is a class",
        f"class '{'x' * 60}…' has a name of 100,000 characters: a text became a label",
        f"class '{column}' has the name of the label column: a header line became a row",
    ]
    assert found["test"].columns.column("name_faults").tolist()[6:9] == [1, 2, 1]
    assert found["test"].notes["class_names"][-1] == "row 7: its texts are the names of the columns"

    data.set_params(lambda values: values["data"].update(label_names=["nan", LONG, column]))
    assert tables(data)["train"].columns.column("name_faults").tolist() == [
        row % 2 if row % 40 != 15 else 0 for row in range(200)
    ]


def test_columns_and_notes_of_rare_classes(data, tables):
    for row in (55, 95, 135, 175):
        data.raw["train"]["labels"][row] = 0
    data.raw["train"]["labels"][3] = 7  # no class: another check says so
    data.raw["validation"]["labels"] = [0] * 60
    train = tables(data)["train"]
    assert train.notes["rare_classes"] == [
        "rows of class 'yes': 94 in train, 0 in validation, 28 in test",
        "rows of class 'perhaps': 1 in train, 0 in validation, 2 in test",
    ]
    assert train.columns.column("rare_class").tolist() == [
        int(label in (1, 2)) for label in data.raw["train"]["labels"]
    ]

    data.raw["validation"]["labels"] = [-1] * 60  # published without labels: no class is missing in it
    assert tables(data)["train"].notes["rare_classes"] == ["rows of class 'perhaps': 1 in train, 2 in test"]
    data.raw["train"]["labels"] = [min(label, 1) for label in data.raw["train"]["labels"]]
    assert tables(data)["train"].notes["absent_classes"] == ["rows of class 'perhaps': 0 in train, 2 in test"]


def test_only_the_first_ten_rows_are_described(data, tables):
    data.raw["test"].update({name: [name] * 60 for name in data.columns})
    assert tables(data)["test"].notes["class_names"][9:] == [
        "row 9: its texts are the names of the columns",
        "and 50 more",
    ]


def test_train_without_labels_and_regression_have_no_classes(data, tables):
    named = {"rare_class", "name_faults"}
    labels = data.raw["train"]["labels"]
    data.raw["train"]["labels"] = [-1] * 200
    assert not named & set(tables(data)["train"].columns.names)
    data.raw["train"]["labels"] = labels
    data.labels = Regression()
    data.set_params(lambda values: values["data"].update(task="regression"))
    assert not named & set(tables(data)["train"].columns.names)
