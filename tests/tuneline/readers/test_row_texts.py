import math

import pytest

from tuneline.readers.row_texts import row_problem, text_problem


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("text", None),
        ("", None),
        ("né 東京 🙂", None),
        (7, "column 'body' is a number, not text"),
        (None, "column 'body' is null, not text"),
        (math.nan, "column 'body' is a number, not text"),
        (["a"], "column 'body' is a list, not text"),
        ("half an emoji \ud83d", "column 'body' has an unpaired surrogate, \\ud83d"),
    ],
    ids=["ascii", "empty", "unicode", "number", "null", "nan", "list", "surrogate"],
)
def test_value_that_is_not_text_is_a_problem(value, problem):
    assert text_problem(value, "body") == problem


@pytest.mark.parametrize(
    ("subject", "body", "problem"),
    [
        ("a", "b", None),
        ("", "b", None),
        (" ", "\n", "column 'subject' and 'body': no text, or only white space"),
        ("a", None, "column 'body' is null, not text"),
        ("a", "\udc00", "column 'body' has an unpaired surrogate, \\udc00"),
    ],
)
def test_row_needs_text_in_one_of_its_columns(subject, body, problem):
    assert row_problem({"subject": subject, "body": body}) == problem
