import random

import pytest

from tests.columns_corpus import NOUNS
from tuneline.columns.profiles import count_words
from tuneline.columns.texts import LEAST_GAIN, pair


def text(generator, words):
    return " ".join(generator.choices(NOUNS, k=words))


def test_headline_and_body_are_related_whatever_their_lengths():
    generator = random.Random(1)
    bodies = [text(generator, 30) for _ in range(200)]
    gain, reason = pair([(" ".join(body.split()[5:1:-1]), body) for body in bodies], 0, 1)
    assert gain >= LEAST_GAIN
    assert "of the words are in both texts of a row" in reason


def test_texts_of_one_length_and_vocabulary_are_a_pair_even_if_they_are_not_related():
    generator = random.Random(1)
    gain, reason = pair([(text(generator, 9), text(generator, 11)) for _ in range(200)], 0, 1)
    assert gain < LEAST_GAIN
    assert reason == "texts of similar length with the same words"


def test_short_text_is_no_pair_with_an_unrelated_long_one():
    generator = random.Random(1)
    assert pair([(text(generator, 8), text(generator, 30)) for _ in range(200)], 0, 1) is None


def test_cleaned_copy_is_no_pair_with_its_text():
    generator = random.Random(1)
    bodies = [text(generator, 9) for _ in range(200)]
    assert pair([(body, " ".join(body.split()[1:])) for body in bodies], 0, 1) is None


@pytest.mark.parametrize(
    "cell",
    [
        lambda n: f"2024-05-{n % 28:02d} 12:{n % 60:02d}:00",
        lambda n: f"Anna {n}",
        lambda n: ["a b c d e", "f g h i j"][n % 2],
        lambda n: None,
    ],
    ids=["dates", "names", "categories", "nothing"],
)
def test_dates_names_and_categories_are_no_texts(cell):
    generator = random.Random(1)
    assert pair([(text(generator, 9), cell(number)) for number in range(200)], 0, 1) is None


@pytest.mark.parametrize(
    ("content", "words"),
    [("a b", 2), ("", 0), ("naïve café, non ?", 3), ("包裹在哪里", 5), ("MRPC 包裹", 3), ("どこですか", 5)],
)
def test_characters_of_languages_without_spaces_count_as_words(content, words):
    assert count_words(content) == words
