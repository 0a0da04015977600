import random
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest

from tests.stages.validate.data import sentence
from tuneline.analysis import near_duplicates, similarity
from tuneline.analysis.near_duplicates import (
    MAX_PER_BAND,
    NO_ROW,
    WIDTH,
    Search,
    bands,
    candidates,
    find_near_duplicates,
)
from tuneline.analysis.similarity import WordSets
from tuneline.analysis.text import EncodedWords, normalized, text_keys, unordered_row_keys, words
from tuneline.paths import SPLITS

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
    monkeypatch.setattr(near_duplicates, "WORDS_AT_A_TIME", 100)
    monkeypatch.setattr(near_duplicates, "PAIRS_AT_A_TIME", 5)
    monkeypatch.setattr(similarity, "PAIRS_AT_A_TIME", 3)
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


def test_two_rows_have_the_same_samples_as_often_as_they_are_similar():
    """Half of the words are frequent and kept: with equal weights, the rows of a pair would be more
    similar."""
    rng = random.Random(5)
    frequent = [sentence(rng, LEXICON[:20], 12, 12) for _ in range(50)]
    texts, changed = ([f"{text} {sentence(rng, LEXICON[20:], 9, 9)}" for text in frequent] for _ in range(2))
    sets = WordSets.of([EncodedWords.of(words([pa.array([*texts, *changed])]))])
    sampler = Search(sets, np.zeros(100, np.int8), REQUIRED)
    samples = np.concatenate([some for first in range(0, 400, WIDTH) for _, some in sampler._samples(first)])
    expected = sets.similarity(np.arange(50), np.arange(50, 100))
    assert (samples[:, :50] == samples[:, 50:]).mean() == pytest.approx(expected.mean(), abs=0.05)


def test_candidates_have_the_same_key_and_are_of_earlier_rows():
    keys = np.array([5, 5, 7, 5, 7, 5, 9], np.uint64)
    across, within = (
        set(zip(*(side.tolist() for side in pairs), strict=True))
        for pairs in candidates(keys, np.array([0, 0, 0, 1, 1, 1, 1]))
    )
    assert across == {(3, 0), (3, 1), (5, 0), (5, 1), (4, 2)}
    assert within == {(1, 0), (5, 3)}


def test_crowded_band_still_compares_with_the_earlier_split():
    split = np.repeat([0, 1], 1000)
    across, within = candidates(np.zeros(2000, np.uint64), split)
    assert len(across[0]) == 1000 * MAX_PER_BAND
    assert set(across[1].tolist()) == set(range(1000 - MAX_PER_BAND, 1000))
    assert (split[within[0]] == split[within[1]]).all()


@pytest.mark.parametrize("similarity", [0.4, 0.5, 0.8, 0.95])
def test_bands_miss_few_near_duplicates(similarity):
    assert 1 - (1 - similarity**4) ** bands(similarity) > 0.9
    assert bands(similarity) < 100


def shares_sentence(row: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return True if a sentence is in both rows, or one that differs in a tenth of its letters, whatever the
    order of its words."""
    one, two = ([" ".join(sorted(text.split())) for text in texts] for texts in (row, other))
    return bool({*one} & {*two}) or any(
        SequenceMatcher(None, a, b, autojunk=False).ratio() >= 0.9 for a in one for b in two
    )


@pytest.mark.real_data
def test_mrpc_has_hardly_a_false_pair(shared):
    """Nearly all near-duplicates share one of their two sentences, most of them word for word: many pairs are
    about one story."""
    splits = []
    for split in SPLITS:
        lines = (shared / "data/mrpc" / f"{split}.tsv").read_text(encoding="utf-8-sig").splitlines()[1:]
        splits.append([tuple(normalized(pa.array(line.split("\t")[3:5])).to_pylist()) for line in lines])
    rows = [row for split in splits for row in split]
    origin = np.concatenate([found.origin for found in search(*splits)])
    named = np.flatnonzero(origin != NO_ROW)
    unlike = [row for row in named if not shares_sentence(rows[row], rows[origin[row]])]
    assert 0.08 < len(named) / len(rows) < 0.12
    assert len(unlike) / len(rows) < 0.01
