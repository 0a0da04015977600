from pathlib import Path

import pytest

from tuneline.checks.own import PARAMETER, own_check
from tuneline.core.params.section import FunctionName
from tuneline.judge.metrics.functions import ProjectFunction


@pytest.mark.parametrize(
    ("docstring", "title"),
    [
        ("Texts have\n    no phone numbers. In any format.\n\n    More.", "Texts have no phone numbers."),
        ("No numbers\n\nMore. And more.", "No numbers."),
        (None, "No phone numbers."),
    ],
)
def test_title_is_the_first_sentence_of_the_docstring_or_the_name(docstring, title):
    def target(texts, labels):
        return []

    target.__doc__ = docstring
    name = FunctionName(Path("project/checks.py"), "no_phone_numbers")
    check = own_check(ProjectFunction(PARAMETER, name, target, ()))
    assert (check.key, check.title) == ("no_phone_numbers", title)
    assert "project/checks.py:no_phone_numbers" in check.hint
