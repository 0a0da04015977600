"""The division of rows into splits: what decides it, what it keeps together, and what added rows may move."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneline.core.params.data import SplitParams
from tuneline.model.tasks import Classification
from tuneline.rows.splits.splitting import assign_splits, hashes, row_hashes, strata

EXACT, STABLE = SplitParams(), SplitParams(stratify=False)


def divide(rows, params=EXACT, seed=1, groups=None):
    """Return the split of rows (text, ..., label), as an index into train, validation, test."""
    *texts, labels = (pa.array(column, pa.string()) for column in zip(*rows, strict=True))
    keys = row_hashes(texts, None if groups is None else pa.array(groups, pa.string()), seed)
    return assign_splits(keys, strata(Classification(()), labels), params).tolist()


def numbered(count, classes="ab", first=0):
    return [(f"text {number}", classes[number % len(classes)]) for number in range(first, first + count)]


def test_each_class_has_its_share_of_each_split_in_a_sorted_file():
    rows = sorted(
        ((f"text {number}", "rare" if number % 10 == 0 else "common") for number in range(1000)),
        key=lambda row: row[1],
    )
    parts = Counter(zip((label for _, label in rows), divide(rows), strict=True))
    for label, count in (("rare", 100), ("common", 900)):
        assert parts[label, 2] == count / 10
        assert parts[label, 1] == count / 10


@pytest.mark.parametrize(("validation", "test"), [(0.1, 0.1), (0.15, 0.2), (0.0, 0.2), (0.3, 0.0)])
@pytest.mark.parametrize("seed", range(5))
def test_each_class_of_few_rows_has_its_share_rounded_up_or_down(validation, test, seed):
    sizes = {f"class {rows}": rows for rows in (2, 3, 5, 8, 11, 14, 33, 57, 100, 140)}
    rows = [(f"text {name} {number}", name) for name, count in sizes.items() for number in range(count)]
    split = SplitParams(validation=validation, test=test)
    parts = Counter(zip((name for _, name in rows), divide(rows, split, seed), strict=True))
    for name, count in sizes.items():
        for part, fraction in enumerate((1 - validation - test, validation, test)):
            assert abs(parts[name, part] - fraction * count) < 1, (name, part)


def test_hash_is_that_of_the_specification():
    """The split of a data set must be the same with any version of any library."""
    assert hashes(pa.array(["café", None]), seed=42).tolist() == [5499886244904257890, 0]


@pytest.mark.parametrize(
    ("letters", "key"),
    [
        ("\U0001e030 \U00011f04", 0x785AD966239BF999),  # Unicode 15.0
        ("\U0002ebf0 \u2ffc", 0xB91B1DE2EC7DB5FA),  # 15.1
        ("\u1c89 \ua7cb \U00010d50 \U00011382\U000113c9 \U0001ccd6", 0xBBE9D31E67C638A5),  # 16.0
        ("\ua7ce \ua7f1 \U00016ea0", 0x54BA21EC76142FF2),  # 17.0
    ],
)
def test_split_of_new_letters_stays_where_the_tables_of_unicode_in_arrow_change(letters, key):
    assert row_hashes([pa.array([letters])], None, seed=0).tolist() == [key]


@pytest.mark.parametrize("params", [EXACT, STABLE])
def test_split_depends_on_seed_and_text_but_not_on_the_order_of_the_rows(params):
    rows = numbered(400)
    assert divide(rows, params) == divide(rows, params)
    assert divide(rows, params) != divide(rows, params, seed=2)
    assert divide(rows, params)[::-1] == divide(rows[::-1], params)


@pytest.mark.parametrize("params", [EXACT, STABLE])
def test_equal_texts_are_in_one_split(params):
    rows = [(f"Text  {number // 2}" if number % 2 else f"text {number // 2}", "a") for number in range(400)]
    parts = divide(rows, params)
    assert parts[::2] == parts[1::2]


def test_pair_in_either_order_is_in_one_split():
    rows = [
        (f"a {number // 2}", "b", "x") if number % 2 else ("b", f"a {number // 2}", "x")
        for number in range(400)
    ]
    parts = divide(rows)
    assert parts[::2] == parts[1::2]


@pytest.mark.parametrize("params", [EXACT, STABLE])
def test_rows_of_a_group_are_in_one_split(params):
    groups = [f"customer {number % 60}" for number in range(600)]
    parts = divide(numbered(600), params, groups=groups)
    assert len({*zip(groups, parts, strict=True)}) == 60
    assert set(parts) == {0, 1, 2}


def test_each_split_has_its_share_of_the_groups_of_each_class():
    """A document has one label, as a rule: then the classes are as balanced as without groups."""
    rows = [(f"text {number}", "ab"[number // 10 % 2]) for number in range(2000)]
    groups = [f"document {number // 10}" for number in range(2000)]
    parts = Counter((label, part) for (_, label), part in zip(rows, divide(rows, groups=groups), strict=True))
    assert {parts[label, part] for label in "ab" for part in (1, 2)} == {100}


@pytest.mark.parametrize("rare", [1])
def test_class_of_few_rows_is_in_train(rare):
    rows = numbered(50) + [(f"other {number}", "rare") for number in range(rare)]
    for seed in range(100):
        assert 0 in divide(rows, seed=seed)[-rare:]


rows_of_a_file = st.lists(
    st.tuples(st.text("abcdef", min_size=1, max_size=3), st.sampled_from("xyz")), min_size=1, max_size=150
)


@given(rows=rows_of_a_file, added=rows_of_a_file)
@settings(max_examples=60)
def test_added_rows_move_no_row_where_nothing_is_stratified(rows, added):
    assert divide(rows + added, STABLE)[: len(rows)] == divide(rows, STABLE)


@pytest.mark.parametrize("params", [EXACT, SplitParams(validation=0.3, test=0.2)])
def test_added_rows_move_no_row_between_train_and_test(params):
    before = np.array(divide(numbered(300), params))
    for count in range(310, 900, 40):
        after = np.array(divide(numbered(count), params)[:300])
        assert not {(0, 2), (2, 0)} & {*zip(before.tolist(), after.tolist(), strict=True)}
        assert np.mean(before != after) < 0.1
