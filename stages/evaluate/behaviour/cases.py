"""Cases of a behaviour test: rows of the reported split or filled templates, with their texts changed.

A row is changed the same way in every run.
"""

import itertools
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.evaluate.behaviour.suite import BLANK, AnyTest, Append, Change, MinimumFunctionality, Prepend, Replace, check_suitable, label_id
from stages.evaluate.texts import Texts, TextSplit
from tuneline.files.schemas import LabelSchema

_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_FINAL = re.compile(r"\s*[.!?]+\s*$")
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|will|would|can|could|should|has|have|had|does|do|did|may|might|must)\b(?!\s*n[o']t\b)", re.IGNORECASE
)


@dataclass(frozen=True)
class Case:
    """One row of a test.

    Attributes:
        before: Original texts; ``None`` if the test looks at the changed texts only.
        after: Changed texts.
    """

    before: Texts | None
    after: Texts


@dataclass(frozen=True)
class LabelledTexts:
    """Texts and labels of the reported split.

    Attributes:
        texts: The texts.
        labels: Shape ``(rows,)``.
        label_schema: Label schema.
    """

    texts: TextSplit
    labels: NDArray[Any]
    label_schema: LabelSchema


def build_cases(test: AnyTest, split: LabelledTexts) -> list[Case]:
    """Return the cases of a test, at most ``test.cases``; rows with nothing to change are skipped.

    Raises:
        ParamsError: The test does not suit the data.
    """
    check_suitable(test, len(split.texts.columns), split.label_schema)
    if test.templates is not None:
        filled = [texts for texts in _filled(test) if _changed(test, texts) is not None]
        chosen = [filled[place] for place in spaced(len(filled), test.cases)]
    else:
        rows = _rows_to_change(test, split)
        chosen = split.texts.take(rows[spaced(len(rows), test.cases)])
    after_only = isinstance(test, MinimumFunctionality)
    changes = ((texts, _changed(test, texts)) for texts in chosen)
    return [Case(None if after_only else texts, changed) for texts, changed in changes if changed is not None]


def spaced(count: int, at_most: int) -> list[int]:
    """Return at most ``at_most`` of ``count`` places, evenly spaced, beginning with the first."""
    return [index * count // at_most for index in range(at_most)] if count > at_most else list(range(count))


def _changed(test: AnyTest, texts: Texts) -> Texts | None:
    return texts if test.change is None else apply_change(test.change, texts, test.text)


def _rows_to_change(test: AnyTest, split: LabelledTexts) -> NDArray[np.int64]:
    """Return the numbers of the rows with the label of the test in which there is something to change."""
    label = None if test.where is None else label_id(test.where, split.label_schema, test.name)
    chosen = np.full(len(split.labels), fill_value=True) if label is None else split.labels == label
    if test.change is not None:
        first = 0
        for columns in split.texts.batches():
            for row, texts in enumerate(zip(*columns, strict=True), first):
                chosen[row] = chosen[row] and _changed(test, texts) is not None
            first += len(columns[0])
    return np.flatnonzero(chosen)


def _filled(test: AnyTest) -> Iterator[Texts]:
    for template in test.templates or []:
        blanks = list(dict.fromkeys(BLANK.findall(" ".join(template))))
        for words in itertools.product(*(test.fill[blank] for blank in blanks)):
            yield tuple(_capital(_fill(text, dict(zip(blanks, words, strict=True)))) for text in template)


def _fill(text: str, words: Mapping[str, str]) -> str:
    return BLANK.sub(lambda match: words[match[1]], text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def apply_change(change: Change, texts: Texts, where: str | None) -> Texts | None:
    """Change the texts of a row.

    Args:
        change: Change to apply.
        texts: One or two texts.
        where: Texts to change: ``first``, ``last``, ``all``; ``None`` for the default of the change.

    Returns:
        The changed texts, or ``None`` if there is nothing to change.
    """
    if change in ("swap_texts", "same_text"):
        changed = texts[::-1] if change == "swap_texts" else texts[:1] * len(texts)
    else:
        editor = _editor(change)
        added = isinstance(change, Append | Prepend) or change == "negate"
        where = where or ("last" if added else "all")
        chosen = {"first": {0}, "last": {len(texts) - 1}, "all": set(range(len(texts)))}[where]
        changed = tuple(editor(text) if index in chosen else text for index, text in enumerate(texts))
    return changed if changed != texts or change == "same_text" else None


def _editor(change: Change) -> Callable[[str], str]:
    if isinstance(change, Append):
        return lambda text: f"{text.rstrip()} {change.append}"
    if isinstance(change, Prepend):
        return lambda text: f"{change.prepend} {text.lstrip()}"
    if isinstance(change, Replace):
        words = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, change.replace))})(?!\w)")
        return lambda text: words.sub(lambda match: change.replace[match[1]], text)
    return {
        "typo": typo,
        "lower_case": str.lower,
        "upper_case": str.upper,
        "no_final_punctuation": lambda text: _FINAL.sub("", text),
        "negate": negate,
    }[change]


def typo(text: str) -> str:
    """Swap two neighbouring letters inside one word of four letters or more, chosen by a checksum of the text."""
    checksum = zlib.crc32(text.encode())
    words = [(match.start(), position) for match in _LONG_WORD.finditer(text) if match[0].isalpha() for position in _swappable(match[0])]
    if not words:
        return text
    start, position = words[checksum % len(words)]
    left = start + position
    return f"{text[:left]}{text[left + 1]}{text[left]}{text[left + 2 :]}"


def _swappable(word: str) -> list[int]:
    """Return positions inside a word, without its first and last letter, where two neighbours differ."""
    return [position for position in range(1, len(word) - 2) if word[position] != word[position + 1]]


def negate(text: str) -> str:
    """Insert "not" after the first auxiliary verb that has none."""
    return _AUXILIARY.sub(r"\1 not", text, count=1)
