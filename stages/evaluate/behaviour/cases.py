"""From tests to the rows that the model is asked about."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.evaluate.behaviour.changes import Texts, apply
from stages.evaluate.behaviour.suitability import BLANK, check, label_id
from stages.evaluate.behaviour.suite import AnyTest, MinimumFunctionality
from tuneline.files.schemas import LabelSchema


@dataclass(frozen=True)
class Case:
    """One row of a test.

    Attributes:
        before: Its texts. ``None`` where only the changed ones are judged.
        after: Its texts, changed.
    """

    before: Texts | None
    after: Texts


@dataclass(frozen=True)
class Rows:
    """The reported split, as far as tests draw from it.

    Attributes:
        texts: One column for each text.
        labels: Shape ``[rows]``.
        label_schema: What they mean.
    """

    texts: Sequence[Sequence[str]]
    labels: NDArray[Any]
    label_schema: LabelSchema


def build_cases(test: AnyTest, rows: Rows) -> list[Case]:
    """The cases of a test, at most ``test.cases``: rows with nothing to change are none.

    Raises:
        ParamsError: A label is no class of the data, or a template has another number of texts.
    """
    check(test, len(rows.texts), rows.label_schema)
    judged_alone = isinstance(test, MinimumFunctionality)
    cases = []
    for texts in _filled(test) if test.templates is not None else _drawn(test, rows):
        changed = texts if test.change is None else apply(test.change, texts, test.text)
        if changed is not None:
            cases.append(Case(None if judged_alone else texts, changed))
    return spaced(cases, test.cases)


def spaced(items: list[Any], at_most: int) -> list[Any]:
    """Some of the items, evenly spaced, the first among them."""
    return items if len(items) <= at_most else [items[index * len(items) // at_most] for index in range(at_most)]


def _filled(test: AnyTest) -> Iterator[Texts]:
    for template in test.templates or []:
        blanks = list(dict.fromkeys(BLANK.findall(" ".join(template))))
        for words in itertools.product(*(test.fill[blank] for blank in blanks)):
            yield tuple(_capital(_fill(text, dict(zip(blanks, words, strict=True)))) for text in template)


def _fill(text: str, words: Mapping[str, str]) -> str:
    return BLANK.sub(lambda found: words[found[1]], text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _drawn(test: AnyTest, rows: Rows) -> Iterator[Texts]:
    wanted = None if test.where is None else label_id(test.where, rows.label_schema, test.name)
    positions = range(len(rows.labels)) if wanted is None else np.flatnonzero(rows.labels == wanted).tolist()
    for row in positions:
        yield tuple(column[row] for column in rows.texts)
