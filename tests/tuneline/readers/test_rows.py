import pytest

from tuneline.readers.rows import check_columns, nearest
from tuneline.runtime.errors import DataError

REQUIRED = {"text": "data.text_columns", "label": "data.label_column"}


def test_check_columns_accepts_columns_in_any_order_and_others():
    check_columns(["label", "id", "id", "text"], REQUIRED, "a.csv")


def test_missing_column_is_refused_with_its_option_and_the_nearest_name():
    with pytest.raises(DataError, match=r"a\.csv: .*'label'") as error:
        check_columns(["text", "labels"], REQUIRED, "a.csv")
    assert error.value.hint == "The nearest is 'labels'. It has 'text', 'labels'."


def test_hint_of_a_missing_column_can_be_set():
    with pytest.raises(DataError) as error:
        check_columns(["text"], REQUIRED, "a.csv", hint="Set --label.")
    assert error.value.hint == "Set --label."


def test_duplicate_required_column_is_refused():
    with pytest.raises(DataError, match=r"column 'text' .* 2"):
        check_columns(["text", "label", "text"], REQUIRED, "a.csv")


@pytest.mark.parametrize(("name", "expected"), [("lable", "; the nearest is 'label'"), ("xyz", "")])
def test_nearest_name_is_given_only_if_it_is_similar(name, expected):
    assert nearest(name, ["text", "label"]) == expected
