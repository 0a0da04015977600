"""Search for the second text of a pair by the values, for files whose column names do not tell.

Two texts of one row share more words than texts of different rows, or are at least of one length and one vocabulary. Neither is true of
a text and the name, city or address in its row.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuneline.cli.init.rows import Row

LEAST_WORDS = 3
"""Mean words of a text that can be one of a pair: names and cities have two."""
LEAST_DISTINCT = 0.05
"""Smallest share of distinct values in a column of texts: a question may be repeated for each answer, a category more often."""
LEAST_GAIN = 0.05
"""Smallest difference between the share of words in common within rows and across rows."""
LEAST_T = 4.0
"""Smallest t statistic of that difference."""
ALIKE_WORDS = 5
"""Mean words of texts that are a pair because they are alike."""
ALIKE_LENGTH = 0.5
"""Smallest ratio of their mean lengths."""
ALIKE_VOCABULARY = 0.8
"""Smallest share of the words of one column that occur in the other."""
MOST_COPIES = 0.5
"""Share of rows whose texts have the same words in the same order, from which a column is a cleaned copy of another."""
ROWS = 1000
"""Rows that are compared."""
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Chinese and Japanese characters: each counts as a word, because no spaces separate words."""
WORD = re.compile(f"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\\W_])+")


def count_words(text: str) -> int:
    """Return the number of words."""
    return len(text.split()) if text.isascii() else len(WORD.findall(text))


@dataclass(frozen=True)
class Relation:
    """What two columns of texts have in common.

    Attributes:
        within, across: Mean share of the words of the shorter text that are in the other text of the same row, and of the next row.
        t: t statistic of their difference over the rows.
        alike: The columns are wordy and have one length and one vocabulary.
        copies: Share of rows in which one text is the other without some of its words.
    """

    within: float
    across: float
    t: float
    alike: bool
    copies: float

    @property
    def is_pair(self) -> bool:
        """True if the texts of a row belong together and neither is a copy of the other."""
        return (self.is_related or self.alike) and self.copies < MOST_COPIES

    @property
    def is_related(self) -> bool:
        """True if the texts of a row share more words than those of different rows."""
        return self.within - self.across >= LEAST_GAIN and self.t >= LEAST_T

    @property
    def reason(self) -> str:
        """Why it is a pair."""
        if self.is_related:
            return f"{self.within:.0%} of the words are in both texts of a row, {self.across:.0%} in texts of different rows"
        return "texts of similar length with the same words"


def relation(rows: Sequence[Row], one: int, other: int) -> Relation | None:
    """Compare two columns of texts; ``None`` if one of them does not consist of various texts of several words.

    Args:
        rows: A sample of the rows.
        one: Position of a column.
        other: Position of the other.
    """
    texts = [(row[one] or "", row[other] or "") for row in rows[:ROWS] if row[one] and row[other]]
    if len(texts) < 3:
        return None
    left, right = ([WORD.findall(text.casefold()) for text in column] for column in zip(*texts, strict=True))
    if not (_are_texts(left) and _are_texts(right)):
        return None
    within = np.array([_in_common(set(a), set(b)) for a, b in zip(left, right, strict=True)])
    across = np.array([_in_common(set(a), set(b)) for a, b in zip(left, right[1:] + right[:1], strict=True)])
    gain = within - across
    t = float(gain.mean() / max(gain.std(ddof=1) / len(gain) ** 0.5, 1e-9))
    copies = float(np.mean([_is_copy(a, b) for a, b in zip(left, right, strict=True)]))
    return Relation(float(within.mean()), float(across.mean()), t, _are_alike(left, right), copies)


def _are_texts(texts: Sequence[Sequence[str]]) -> bool:
    """Numbers are no words here: a date has several."""
    words = sum(not word.isdecimal() for text in texts for word in text)
    return words >= LEAST_WORDS * len(texts) and len(set(map(tuple, texts))) >= LEAST_DISTINCT * len(texts)


def _are_alike(left: Sequence[Sequence[str]], right: Sequence[Sequence[str]]) -> bool:
    counts = [Counter(word for text in column for word in text if not word.isdecimal()) for column in (left, right)]
    sizes = sorted(count.total() / len(left) for count in counts)
    shared = min(sum(one[word] for word in one.keys() & other.keys()) / one.total() for one, other in (counts, counts[::-1]))
    return sizes[0] >= ALIKE_WORDS and sizes[0] / sizes[1] >= ALIKE_LENGTH and shared >= ALIKE_VOCABULARY


def _in_common(one: set[str], other: set[str]) -> float:
    return len(one & other) / max(1, min(len(one), len(other)))


def _is_copy(one: Sequence[str], other: Sequence[str]) -> bool:
    shorter, longer = sorted((one, other), key=len)
    remaining = iter(longer)
    return len(shorter) > 0 and all(word in remaining for word in shorter)
