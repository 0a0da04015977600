import pytest

from tuneline.runtime.wording import first_of


@pytest.mark.parametrize(
    ("count", "joined"), [(0, ""), (1, "a"), (2, "a, b"), (3, "a, b and 1 more"), (5, "a, b and 3 more")]
)
def test_texts_after_the_limit_are_counted(count, joined):
    assert first_of(list("abcde")[:count], 2) == joined
