"""Cases of a behaviour test: rows of the reported split or filled templates, with their texts changed.

A row is changed the same way in every run.
"""

import itertools
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.evaluate.behaviour.suite import BLANK, AnyTest, Append, Change, MinimumFunctionality, Prepend, Replace, check_suitable, label_id
from tuneline.files.schemas import LabelSchema

Texts = tuple[str, ...]

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
class SplitTexts:
    """Texts and labels of the reported split.

    Attributes:
        texts: One column for each text.
        labels: Shape ``(rows,)``.
        label_schema: Label schema.
    """

    texts: Sequence[Sequence[str]]
    labels: NDArray[Any]
    label_schema: LabelSchema


def build_cases(test: AnyTest, split: SplitTexts) -> list[Case]:
    """Return the cases of a test, at most ``test.cases``; rows with nothing to change are skipped.

    Raises:
        ParamsError: The test does not suit the data.
    """
    check_suitable(test, len(split.texts), split.label_schema)
    after_only = isinstance(test, MinimumFunctionality)
    cases = []
    for texts in _filled(test) if test.templates is not None else _drawn(test, split):
        changed = texts if test.change is None else apply_change(test.change, texts, test.text)
        if changed is not None:
            cases.append(Case(None if after_only else texts, changed))
    return spaced(cases, test.cases)


def spaced(items: list[Any], at_most: int) -> list[Any]:
    """Return at most ``at_most`` items, evenly spaced, beginning with the first."""
    return items if len(items) <= at_most else [items[index * len(items) // at_most] for index in range(at_most)]


def _filled(test: AnyTest) -> Iterator[Texts]:
    for template in test.templates or []:
        blanks = list(dict.fromkeys(BLANK.findall(" ".join(template))))
        for words in itertools.product(*(test.fill[blank] for blank in blanks)):
            yield tuple(_capital(_fill(text, dict(zip(blanks, words, strict=True)))) for text in template)


def _fill(text: str, words: Mapping[str, str]) -> str:
    return BLANK.sub(lambda match: words[match[1]], text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _drawn(test: AnyTest, split: SplitTexts) -> Iterator[Texts]:
    label = None if test.where is None else label_id(test.where, split.label_schema, test.name)
    positions = range(len(split.labels)) if label is None else np.flatnonzero(split.labels == label).tolist()
    for row in positions:
        yield tuple(column[row] for column in split.texts)


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
