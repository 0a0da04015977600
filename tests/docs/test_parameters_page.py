"""The page of parameters and the defaults of Hydra are those that the fields give."""

from tests.docs.parameters_page import BASE, MARK, PAGE, base, written


def test_page_of_parameters_is_that_of_the_fields():
    text = PAGE.read_text(encoding="utf-8")
    assert MARK in text
    assert text == written(), "run `make parameters`"


def test_defaults_of_hydra_are_those_of_the_fields():
    assert BASE.read_text(encoding="utf-8") == base(), "run `make parameters`"
