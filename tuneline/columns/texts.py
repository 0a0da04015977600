"""The texts: one column, or a pair, by the names and by the values.

The second text of a pair is searched for by the values where the names do not tell: two texts of one row
share more words than texts of different rows, or are at least of one length and one vocabulary. Neither is
true of a text and the name, city or address in its row.
"""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuneline.columns.doubts import Alternative, ColumnDoubt, NamedColumns
from tuneline.columns.profiles import WORD_PATTERN, Cells
from tuneline.columns.reading import Column
from tuneline.runtime.errors import DataError
from tuneline.runtime.wording import listed
from tuneline.sniffing.names import PAIRS, TEXT_NAMES

LEAST_WORDS = 3
"""Mean words of a text that can be one of a pair: names and cities have two."""
LEAST_DISTINCT = 0.05
"""Smallest share of distinct values in a column of texts.

A question may be repeated for each answer, a category more often.
"""
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
"""Share of rows with the same words in the same order, from which a column is a cleaned copy of another."""
PROFILED_ROWS = 1000
"""Rows that are compared."""


def pair(rows: Sequence[Cells], first: int, second: int) -> tuple[float, str] | None:
    """Compare two columns of a sample of rows, by their positions.

    Returns:
        How much larger the share of words that two texts have in common is within rows than across rows, and
        why the columns are a pair; ``None`` if they are none: one does not consist of various texts of
        several words, or is a copy of the other, or they have too little in common.
    """
    # words of both texts of each row that has both
    left: list[list[str]] = []
    right: list[list[str]] = []
    for row in rows[:PROFILED_ROWS]:
        first_text = row[first]
        second_text = row[second]
        if first_text and second_text:
            left.append(WORD_PATTERN.findall(first_text.casefold()))
            right.append(WORD_PATTERN.findall(second_text.casefold()))
    if len(left) < 3:
        return None
    if not _are_texts(left) or not _are_texts(right):
        return None
    copies = list(map(_is_copy, left, right))
    if np.mean(copies) >= MOST_COPIES:
        return None

    # words in common, within rows and with the text of the next row
    next_right = right[1:] + right[:1]
    within = np.array(list(map(_in_common, left, right)))
    across = np.array(list(map(_in_common, left, next_right)))
    gains = within - across
    gain = float(gains.mean())
    standard_error = gains.std(ddof=1) / len(gains) ** 0.5
    t = gains.mean() / max(standard_error, 1e-9)
    if gain >= LEAST_GAIN and t >= LEAST_T:
        reason = (
            f"{within.mean():.0%} of the words are in both texts of a row, {across.mean():.0%} in texts of"
            " different rows"
        )
        return gain, reason
    if _are_alike(left, right):
        return gain, "texts of similar length with the same words"
    return None


def _are_texts(texts: Sequence[Sequence[str]]) -> bool:
    """Return True if a column has various texts of several words; numbers, as in dates, are no words."""
    words = _count_words(texts).total()
    distinct = len(set(map(tuple, texts)))
    return words >= LEAST_WORDS * len(texts) and distinct >= LEAST_DISTINCT * len(texts)


def _are_alike(left: Sequence[Sequence[str]], right: Sequence[Sequence[str]]) -> bool:
    """Return True if two columns have texts of one length and one vocabulary."""
    left_words = _count_words(left)
    right_words = _count_words(right)
    shorter, longer = sorted([left_words.total() / len(left), right_words.total() / len(left)])
    shared = min(_share_in(left_words, right_words), _share_in(right_words, left_words))
    return shorter >= ALIKE_WORDS and shorter / longer >= ALIKE_LENGTH and shared >= ALIKE_VOCABULARY


def _count_words(texts: Sequence[Sequence[str]]) -> Counter[str]:
    """Return how often each word occurs in all texts; numbers are no words."""
    counts: Counter[str] = Counter()
    for text in texts:
        for word in text:
            if not word.isdecimal():
                counts[word] += 1
    return counts


def _share_in(words: Counter[str], vocabulary: Counter[str]) -> float:
    """Return the share of words that occur in a vocabulary, too."""
    shared = words.keys() & vocabulary.keys()
    return sum(words[word] for word in shared) / words.total()


def _in_common(left: Sequence[str], right: Sequence[str]) -> float:
    """Return the share of the distinct words of the shorter text that the other text has, too."""
    left_words = set(left)
    right_words = set(right)
    shorter = min(len(left_words), len(right_words))
    return len(left_words & right_words) / max(1, shorter)


def _is_copy(left: Sequence[str], right: Sequence[str]) -> bool:
    """Return True if the longer text has the words of the shorter one in the same order."""
    shorter, longer = sorted((left, right), key=len)
    remaining = iter(longer)
    # `in` consumes the iterator up to the word: the next word is searched for behind it
    return len(shorter) > 0 and all(word in remaining for word in shorter)


@dataclass(frozen=True)
class TextChoice:
    """The text columns.

    Attributes:
        columns: One, or a pair.
        why: The reason.
        doubt: The question, where other columns are texts of the same kind.
    """

    columns: tuple[str, ...]
    why: str
    doubt: ColumnDoubt | None = None


MOST_SPOILED = 0.5
"""Share of cells from which a column is no text as it is."""


def choose_texts(columns: Sequence[Column], sample: Sequence[Cells], names: Sequence[str]) -> TextChoice:
    """Choose a pair with known names, else the column with the most words and the one that pairs with it.

    Args:
        columns: The columns that can be texts.
        sample: A random sample of the rows.
        names: All columns, in the order of the cells of a row.

    Raises:
        DataError: No column looks like text.
    """
    candidates = {column.key: column for column in columns if _can_be_text(column)}
    for first, second in PAIRS:
        if first in candidates and second in candidates:
            pair_of_names = (candidates[first].name, candidates[second].name)
            return TextChoice(pair_of_names, "a pair, by their names")
    if not candidates:
        raise _no_text(columns)

    # by values: the text with the most words, and the one that is most of a pair with it
    *others, longest = sorted(candidates.values(), key=_likeness_to_text)
    refuse_spoiled(longest)
    position = list(names).index
    pairs = {}
    for column in others:
        compared = pair(sample, position(longest.name), position(column.name))
        if compared is not None:
            pairs[column.name] = compared
    if len(pairs) > 1 and longest.key not in TEXT_NAMES:
        return _of_many(longest, pairs, position)
    if pairs:
        second, (_, reason) = max(pairs.items(), key=lambda item: item[1][0])
        return TextChoice(tuple(sorted((longest.name, second), key=position)), f"a pair: {reason}")
    return _of_one(longest, others)


def _can_be_text(column: Column) -> bool:
    return column.profile.filled > 0 and not column.profile.nested and not column.profile.is_numeric


def _of_one(longest: Column, others: Sequence[Column]) -> TextChoice:
    """Return the choice of one text; the reason names other columns of several words."""
    reason = f"{longest.profile.mean_words:.0f} words per row"
    unused = []
    for column in others:
        if column.profile.mean_words >= ALIKE_WORDS:
            unused.append(f"{column.name!r} ({column.profile.mean_words:.0f} words)")
    if unused:
        reason += f"; not used: {', '.join(unused)}; --text COLUMN --text COLUMN makes a pair"
    return TextChoice((longest.name,), reason)


def _of_many(longest: Column, pairs: dict[str, tuple[float, str]], position: Any) -> TextChoice:
    """Return the doubt about more than two columns of texts of the same kind."""
    alike = sorted([longest.name, *pairs], key=position)
    alternatives = []
    for texts in ((alike[0],), (alike[0], alike[1])):
        options = shlex.join([word for name in texts for word in ("--text", name)])
        alternatives.append(
            Alternative(f"a model of {' and '.join(map(repr, texts))}", options, NamedColumns(text=texts))
        )
    problem = (
        f"{len(alike)} columns have texts of the same kind: {listed(alike, 4)}; a model reads one or two"
    )
    return TextChoice((longest.name,), "the longest texts", ColumnDoubt(problem, tuple(alternatives)))


def refuse_spoiled(column: Column) -> None:
    """Refuse texts that a program wrote as something else: bytes of Python, or lists.

    Raises:
        DataError: Most cells are so.
    """
    byte_texts = lists = 0
    for value, cells in column.values.items():
        if value[:2] in {"b'", 'b"'} and value[-1:] == value[1]:
            byte_texts += cells
        elif value.startswith(('["', "['")) and value.endswith("]"):
            lists += cells
    place = f"Column {column.name!r}"
    if byte_texts > MOST_SPOILED * column.rows:
        raise DataError(
            f"{place} has bytes as Python prints them, b'...', instead of text.",
            "Write the file again with texts that are decoded: ast.literal_eval(cell).decode().",
        )
    if lists > MOST_SPOILED * column.rows:
        raise DataError(f"{place} has lists of texts.", JOIN)


JOIN = "Write the file again with the parts of each text joined, such as by a newline."


def _no_text(columns: Sequence[Column]) -> DataError:
    nested = [column.name for column in columns if column.profile.nested]
    if nested:
        return DataError(f"No column looks like text; {listed(nested)} has lists or objects.", JOIN)
    return DataError("No column looks like text.", "Name it: --text COLUMN (twice for a pair)")


def _likeness_to_text(column: Column) -> tuple[bool, bool, float]:
    """Return a sort key: columns of several words last, then known names of texts, then the most words."""
    return column.profile.mean_words >= 2, column.key in TEXT_NAMES, column.profile.mean_words
