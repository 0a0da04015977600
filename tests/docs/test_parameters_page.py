"""The page of parameters is the one that the fields give."""

from tests.docs.parameters_page import MARK, PAGE, written


def test_page_of_parameters_is_that_of_the_fields():
    text = PAGE.read_text(encoding="utf-8")
    assert MARK in text
    assert text == written(), "run `make parameters`"
