"""Edits of one row: what people and exports do to a text before they store it again."""

import codecs
import re
from collections.abc import Callable
from random import Random

from benchmarks.faults.rows import Data, Row

Edit = Callable[[Row, Random, list[str]], Row]
"""Takes a row, a generator and the words of the data set."""
NAME_OR_NUMBER = re.compile(r"^(?:[A-Z]\w+|[\d.,]*\d[\d.,]*)$")
FOREIGN = "\u2013 caf\u00e9\u2019s na\u00efve fa\u00e7ade"
"""Characters that UTF-8 and Windows-1252 write differently."""


def words_of(data: Data) -> list[str]:
    """Return all words of train, as often as they occur.

    So a word that is drawn from them is as common as in the texts.
    """
    return [word for row in data["train"] for text in row.texts for word in text.split()]


def same(row: Row, _: Random, __: list[str]) -> Row:
    """Change nothing."""
    return row


def replace_words(share: float) -> Edit:
    """Replace a share of the words, at least one per text."""

    def edit(row: Row, generator: Random, vocabulary: list[str]) -> Row:
        return _each(
            row,
            lambda words: _replaced(words, _some(range(len(words)), share, generator), generator, vocabulary),
        )

    return edit


def rename(row: Row, generator: Random, vocabulary: list[str]) -> Row:
    """Replace every name and number by another of the data set; a text without any keeps its words."""
    candidates = [
        word
        for word in generator.sample(vocabulary, min(len(vocabulary), 2_000))
        if NAME_OR_NUMBER.match(word)
    ]
    return _each(
        row,
        lambda words: _replaced(
            words,
            [number for number, word in enumerate(words) if NAME_OR_NUMBER.match(word)],
            generator,
            candidates,
        ),
    )


def drop_clause(row: Row, generator: Random, _: list[str]) -> Row:
    """Drop the words from a random place on: a fifth of each text."""
    del generator
    return _each(row, lambda words: words[: max(1, round(0.8 * len(words)))])


def swap_clauses(row: Row, generator: Random, _: list[str]) -> Row:
    """Move the beginning of each text, of between a third and two thirds, to its end."""

    def swapped(words: list[str]) -> list[str]:
        at = round(len(words) * generator.uniform(1 / 3, 2 / 3))
        return words[at:] + words[:at]

    return _each(row, swapped)


def unreadable(row: Row, generator: Random, _: list[str]) -> Row:
    """Insert control characters."""
    return _each(row, lambda words: [*words, generator.choice("\x07\x08\x1b")])


def mojibake(row: Row, _: Random, __: list[str]) -> Row:
    """Add words that were written as UTF-8 and read as Windows-1252."""
    return _each(row, lambda words: [*words, FOREIGN.encode().decode("cp1252", errors="replace")])


def cp1252(row: Row, _: Random, __: list[str]) -> Row:
    """Add words in Windows-1252, in a file of UTF-8."""
    return _each(row, lambda words: [*words, FOREIGN])._replace(encoding="cp1252")


def blank(row: Row, _: Random, __: list[str]) -> Row:
    """Remove the texts."""
    return row._replace(texts=("", ""))


def invisible(row: Row, _: Random, __: list[str]) -> Row:
    """Leave only zero-width spaces."""
    return row._replace(texts=("\u200b", "\u200b"))


def merged(row: Row, generator: Random, vocabulary: list[str]) -> Row:
    """Append the words of some 30 other texts."""
    start = generator.randrange(max(1, len(vocabulary) - 600))
    return _each(row, lambda words: words + vocabulary[start : start + 600])


def shortened(row: Row, _: Random, __: list[str]) -> Row:
    """Keep the first third of each text."""
    return _each(row, lambda words: words[: max(1, len(words) // 3)])


def other_language(row: Row, _: Random, __: list[str]) -> Row:
    """Rotate the letters by 13 places: words of no known language, of the same lengths."""
    return _each(row, lambda words: codecs.encode(" ".join(words), "rot13").split())


def _each(row: Row, change: Callable[[list[str]], list[str]]) -> Row:
    first, second = (" ".join(change(text.split())) for text in row.texts)
    return row._replace(texts=(first, second))


def _some(numbers: range, share: float, generator: Random) -> list[int]:
    return generator.sample(numbers, min(len(numbers), max(1, round(share * len(numbers)))))


def _replaced(words: list[str], places: list[int], generator: Random, vocabulary: list[str]) -> list[str]:
    replaced = list(words)
    for place in places:
        replaced[place] = generator.choice(vocabulary)
    return replaced
