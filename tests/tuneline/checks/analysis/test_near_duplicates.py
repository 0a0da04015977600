import random
from collections.abc import Callable, Sequence
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest

from tests.tuneline.checks.data import sentence
from tuneline.checks.analysis import near_duplicates
from tuneline.checks.analysis.near_duplicates import (
    NO_ROW,
    find_near_duplicates,
)
from tuneline.core.stage.texts import EncodedWords, normalized, text_keys, unordered_row_keys, words

REQUIRED = 0.5
LEXICON = ["".join(letters) for letters in ([*"ab"], [*"cd"])] + [f"w{number}" for number in range(3000)]


def search(
    *splits: Sequence[tuple[str, ...]], required: float = REQUIRED, batch: int = 10**6
) -> list[near_duplicates.NearDuplicateRows]:
    encoded, keys = [], []
    for rows in splits:
        columns = [normalized(pa.array(column)) for column in zip(*rows, strict=True)]
        starts = range(0, len(rows), batch)
        encoded.append(
            [
                EncodedWords.of(words([column[start : start + batch] for column in columns]))
                for start in starts
            ]
        )
        keys.append(unordered_row_keys([text_keys(column) for column in columns]))
    return find_near_duplicates(encoded, keys, required)


def rows_of(seed: int, number: int) -> list[tuple[str, ...]]:
    rng = random.Random(seed)
    return [(sentence(rng, LEXICON, 18, 24), sentence(rng, LEXICON, 18, 24)) for _ in range(number)]


def replaced(rng: random.Random, text: str, fraction: float, lexicon: Sequence[str] = LEXICON) -> str:
    tokens = text.split()
    for place in rng.sample(range(len(tokens)), max(1, round(fraction * len(tokens)))):
        tokens[place] = rng.choice(lexicon)
    return " ".join(tokens)


def dropped(rng: random.Random, text: str) -> str:
    tokens = text.split()
    start, length = rng.randrange(len(tokens) * 2 // 3), len(tokens) // 3
    return " ".join(tokens[:start] + tokens[start + length :])


def swapped(rng: random.Random, text: str) -> str:
    tokens = text.split()
    middle = rng.randrange(1, len(tokens))
    return " ".join(tokens[middle:] + tokens[:middle])


CHANGES: dict[str, tuple[Callable[[random.Random, str], str], float]] = {
    "one word in ten": (lambda rng, text: replaced(rng, text, 0.1), 0.95),
    "one word in five": (lambda rng, text: replaced(rng, text, 0.2), 0.85),
    "a clause left out": (dropped, 0.95),
    "clauses swapped": (swapped, 0.95),
}


def test_changed_copies_are_found_within_a_split_and_in_earlier_splits():
    rng = random.Random(3)
    train, test = rows_of(1, 400), rows_of(2, 200)
    copies = [
        (kind, row, tuple(change(rng, text) for text in train[row]))
        for kind, (change, _) in CHANGES.items()
        for row in range(80)
    ]
    changed = [texts for _, _, texts in copies]
    within, across = search([*train, *changed], test)[0], search(train, [*test, *changed])[1]
    for found, first in ((within, len(train)), (across, len(test))):
        assert not (found.origin[:first] != NO_ROW).any()
        for kind, (_, recall) in CHANGES.items():
            places = [first + place for place, (one, _, _) in enumerate(copies) if one == kind]
            assert np.mean(found.origin[places] != NO_ROW) >= recall, kind
    sources = np.array([row for _, row, _ in copies])
    assert ((across.origin[len(test) :] == sources) | (across.origin[len(test) :] == NO_ROW)).all()


def test_row_of_an_earlier_split_comes_before_one_of_the_same_split():
    original, other = rows_of(1, 2)
    near = [(original[0] + f" {extra}", original[1]) for extra in ("w1", "w2", "w3")]
    train, validation, test = search([original, other], [near[0]], [near[1], near[2], other])
    assert [split.origin.tolist() for split in (train, validation)] == [[NO_ROW, NO_ROW], [0]]
    assert test.origin[:2].tolist() in ([0, 0], [0, 2], [2, 0], [2, 2])
    assert (test.similarity[:2] > 0.9).all()
    assert test.origin[2] == NO_ROW, "a copy is a leak, not a near-duplicate"


def test_copy_within_a_split_resembles_what_its_original_resembles():
    original, other = rows_of(1, 2)
    near = (original[0] + " w1", original[1])
    train, test = search([original, other, near, near], [near, other, (near[0], near[1] + " w2")])
    assert train.origin.tolist() == [NO_ROW, NO_ROW, 0, 0]
    assert test.origin[:2].tolist() == [NO_ROW, NO_ROW]
    assert test.origin[2] in (0, 2)


def test_rows_without_words_resemble_nothing():
    (found,) = search([("",), (" ",), ("a b c d e f",), ("a b c d e g",), ("",)])
    assert found.origin.tolist() == [NO_ROW, NO_ROW, NO_ROW, 2, NO_ROW]
    assert [split.origin.tolist() for split in search([("",), (" ",)], [("",)])] == [
        [NO_ROW, NO_ROW],
        [NO_ROW],
    ]
    assert find_near_duplicates([], [], REQUIRED) == []


def test_result_does_not_depend_on_batches(monkeypatch):
    rng = random.Random(3)
    train = rows_of(1, 60)
    test = [tuple(replaced(rng, text, 0.1) for text in row) for row in train]
    whole = search(train, test)[1]
    monkeypatch.setattr(near_duplicates, "ROWS_AT_A_TIME", 7)
    monkeypatch.setattr(near_duplicates, "PAIRS_AT_A_TIME", 3)
    parts = search(train, test, batch=11)[1]
    np.testing.assert_array_equal(whole.origin, parts.origin)
    np.testing.assert_array_equal(whole.similarity, parts.similarity)


def test_rows_and_similarities_stay_the_same():
    """The numbers are from the first version of the search."""
    rng = random.Random(11)
    train = rows_of(7, 300)
    changed = [tuple(replaced(rng, text, rng.choice([0.1, 0.2, 0.4])) for text in row) for row in train]
    found = search([*train, *train[:20], *changed[:150]], [*changed[100:], *train[:10]])
    assert [crc32(split.origin.astype("<i8").tobytes()) for split in found] == [457570812, 3849933789]
    assert [split.similarity.sum() for split in found] == pytest.approx([90.947457, 85.137558])
