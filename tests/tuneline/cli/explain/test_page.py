import pytest

from tuneline.cli.explain.page import code, escape


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("a | b", r"a \| b"),
        ("number >= 0 and < 1", r"number \>= 0 and \< 1"),
        ("*all* of snake_case [x](y) <b>", r"\*all\* of snake\_case \[x\](y) \<b\>"),
        ("code `a_b | *c*` stays", r"code `a_b \| *c*` stays"),
        (r"back\slash", r"back\\slash"),
    ],
)
def test_text_is_escaped_outside_code(text, markdown):
    assert escape(text) == markdown


@pytest.mark.parametrize(("text", "markdown"), [("a|b", r"`a\|b`"), ("a`b", "``a`b``"), ("{a: 1}", "`{a: 1}`")])
def test_code_span_may_be_in_a_table(text, markdown):
    assert code(text) == markdown
