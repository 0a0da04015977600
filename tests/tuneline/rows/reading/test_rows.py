import pytest

from tuneline.core.runtime.errors import DataError
from tuneline.rows.reading.rows import BadRowPolicy, BadRows, RowProblem, check_columns, row_problem


def test_columns_are_checked():
    check_columns(["label", "id", "id", "text"], ["text", "label"], "a.csv")
    with pytest.raises(DataError, match=r"a\.csv: no column 'label'\.") as error:
        check_columns(["text", "labels"], ["label"], "a.csv")
    assert error.value.hint == "The nearest is 'labels'. It has 'text', 'labels'."
    with pytest.raises(DataError, match=r"column 'text' .* 2"):
        check_columns(["text", "label", "text"], ["text"], "a.csv")


def test_first_bad_row_is_an_error_and_with_a_share_only_too_many_are():
    problem = RowProblem(7, "no label", "Fill it in.", "'label'", lines=2)
    with pytest.raises(DataError, match=r"a\.csv, line 7, column 'label': no label") as error:
        BadRows("a.csv", "line", BadRowPolicy()).add(problem)
    assert "data.max_bad_share" in error.value.hint

    bad = BadRows("a.csv", "line", BadRowPolicy(0.1, "--max-bad-share"))
    bad.add(problem)
    assert (bad.count, bad.problems) == (2, [problem])
    bad.check(18)
    with pytest.raises(
        DataError, match=r"2 of 19 rows are bad \(10.53%\)(.|\n)*line 7, column 'label'"
    ) as error:
        bad.check(17)
    assert "Fill it in." in error.value.hint


def test_row_without_text_or_with_half_a_character_cannot_be_predicted():
    assert row_problem({"a": "", "b": "x"}) is None
    assert row_problem({"a": " \u2003", "b": ""}) == "column 'a' and 'b': no text, or only white space"
    assert row_problem({"a": "x", "b": None}) == "column 'b' is null, not text"
    assert row_problem({"a": "\ud83d"}) == "column 'a' has an unpaired surrogate, \\ud83d"
