import pytest

from tuneline.runtime.wording import first_lines, first_of, listed


@pytest.mark.parametrize(
    ("count", "joined"), [(0, ""), (1, "a"), (2, "a, b"), (3, "a, b and 1 more"), (5, "a, b and 3 more")]
)
def test_texts_after_the_limit_are_counted(count, joined):
    assert first_of(list("abcde")[:count], 2) == joined


def test_long_list_of_names_is_cut_and_counted():
    assert listed(["a", "b", "c"], limit=3) == "'a', 'b', 'c'"
    assert listed(["a", "b", "c", "d", "e"], limit=3) == "'a', 'b', 'c' and 2 more"


@pytest.mark.parametrize(
    ("lines", "total", "shown"),
    [
        (["a", "b"], None, ["a", "b"]),
        (["a", "b", "c"], None, ["a", "b", "and 1 more"]),
        (["a", "b"], 1_002, ["a", "b", "and 1,000 more"]),
    ],
)
def test_lines_after_the_limit_are_counted_in_a_last_one(lines, total, shown):
    assert first_lines(lines, 2, total) == shown
