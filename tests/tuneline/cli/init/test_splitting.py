from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tuneline.cli.init.splitting import assign, keys_of

FRACTIONS = {"validation": 0.1, "test": 0.1}


def split(rows, text=(0,), label=1, seed=1, regression=False):
    return assign(keys_of(rows, text, label, seed, regression), FRACTIONS)


def test_split_is_stratified_by_label_in_a_sorted_file():
    rows = sorted(((f"text {number}", "rare" if number % 10 == 0 else "common") for number in range(1000)), key=lambda row: row[1])
    parts = Counter((row[1], part) for row, part in zip(rows, split(rows), strict=True))
    assert parts["rare", "train"], parts["rare", "validation"] == (80, 10)
    assert parts["common", "test"] == 90


def test_rare_label_stays_in_train():
    rows = [(f"text {number}", "a") for number in range(100)] + [("other", "rare")]
    assert split(rows)[-1] == "train"


def test_assignment_depends_only_on_the_seed_and_the_texts():
    rows = [(f"text {number}", "ab"[number % 2]) for number in range(200)]
    assert split(rows) == split(rows)
    assert split(rows) != split(rows, seed=2)
    by_text = dict(zip(rows, split(rows), strict=True))
    assert [by_text[row] for row in reversed(rows)] == split(rows[::-1]), "the order of the file does not matter"


def test_equal_texts_are_in_one_split():
    rows = [(f"Text  {number // 2}" if number % 2 else f"text {number // 2}", "a") for number in range(400)]
    parts = split(rows)
    assert parts[::2] == parts[1::2]


def test_pair_in_either_order_is_in_one_split():
    rows = [(f"a {number // 2}", "b", "x") if number % 2 else ("b", f"a {number // 2}", "x") for number in range(400)]
    parts = split(rows, text=(0, 1), label=2)
    assert parts[::2] == parts[1::2]


def test_rows_without_text_or_label_are_left_out():
    rows = [("text", "a"), ("text", ""), ("text", None), (" ", "a"), (None, "a"), ("text", "-1")]
    assert split(rows)[1:] == [None] * 5


def test_minus_one_is_a_label_in_a_regression():
    assert split([("text", "-1"), ("text 2", "")], regression=True) == ["train", None]


@given(st.lists(st.tuples(st.text(max_size=3), st.sampled_from("abc")), max_size=200))
@settings(max_examples=50, deadline=None)
def test_each_row_is_in_one_split_together_with_equal_texts(rows):
    parts = split(rows)
    assert len(parts) == len(rows)
    assert all((part is None) == (not text.strip()) for (text, _), part in zip(rows, parts, strict=True))
    assert len({(text, part) for (text, _), part in zip(rows, parts, strict=True)}) == len({text for text, _ in rows})
