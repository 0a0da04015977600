"""Classes that a person would question: rare ones, and those whose names look like a mistake."""
# ruff: noqa: RUF001 (letters that look alike)

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tuneline.checks.analysis.distributions import bin_values
from tuneline.checks.definitions import Columns
from tuneline.checks.raw import BOM, RawSplit
from tuneline.core.params import Params
from tuneline.core.stage.tables import LABELS
from tuneline.core.stage.texts import repaired
from tuneline.model.tasks import Task
from tuneline.model.tasks.task import MISSING_WORDS

LONGEST_NAME = 100
"""Characters. A longer name is a text in the label column."""
SHOWN = 10
"""Classes in the notes of a check."""
SHOWN_CHARACTERS = 60
"""Characters of a name in a note."""
NAME_SEPARATORS = re.compile(r"(?<=\w)[\s_-]+(?=\w)")
"""White space, underscores and hyphens between letters or digits.

``not_spam`` is like ``not spam``, but ``-1`` is not like ``1``.
"""

DRAWN_ALIKE = {
    **str.maketrans("авекмнорстухіјѕ", "abekmhopctyxijs"),  # Cyrillic
    **str.maketrans("αβεζηικνορτυχ", "abezhiknoptyx"),  # Greek
    # i without a dot, or with two; Persian and Urdu letters; tatweel
    **str.maketrans("ı\u0649\u064a\u0643\u06c1\u06d5", "i\u06cc\u06cc\u06a9\u0647\u0647", "\u0307\u0640"),
    **dict.fromkeys(map(ord, "‘’‛ʹʻʼʽ`′׳"), "'"),
    **dict.fromkeys(map(ord, "“”„‟″״"), '"'),
    **dict.fromkeys(map(ord, "‐‑‒–—―−"), "-"),
}
"""Letters in lower case, and signs, that look like another one: a part of the confusables of Unicode."""
INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0000-\U000e0fff]")
"""Default-ignorable characters that are no control or format characters, such as variation selectors."""


@dataclass(frozen=True)
class ClassFindings:
    """The classes of a task, and what a person would question about them.

    Attributes:
        task: The task.
        names: Names of the classes.
        counts: Rows of each class by split, without splits that have no labels.
        is_rare: True for classes with too few rows in train, or none in a split that is measured.
        faults: What is wrong with the name of each class.
    """

    task: Task
    names: tuple[str, ...]
    counts: Mapping[str, NDArray[np.int64]]
    is_rare: NDArray[np.bool_]
    faults: Sequence[Sequence[str]]

    @classmethod
    def of(cls, raw: Mapping[str, RawSplit], task: Task, params: Params) -> Self | None:
        """Count and compare the classes of all raw splits.

        A name that ``data.label_names`` lists is meant, even if it reads like a missing value. The result is
        ``None`` where labels are not classes, or without labels in train.
        """
        if not task.class_names or not raw["train"].is_labelled:
            return None
        counts = {split: _counts(current) for split, current in raw.items() if current.is_labelled}
        is_rare = counts["train"] < params.validate_.min_class_rows
        for split in {"validation", params.evaluate.split} & counts.keys():
            is_rare |= counts[split] == 0

        names = task.output_names
        alike = like_other(names, np.sum(list(counts.values()), axis=0).tolist())
        declared = params.data.label_names or ()
        faults = []
        for name in names:
            label_column = None if name in declared else params.data.label_column
            faults.append(alike.get(name, []) + list(name_faults(name, label_column)))
        return cls(task, names, counts, is_rare, faults)

    def columns(self, split: str, current: RawSplit) -> Columns:
        """Return columns of shape ``(rows,)`` for the rows of a split.

        ``class`` is the name in quotes, or several; ``rare_class``, of train, is 1 or 0; ``name_faults``
        counts what is wrong with the name.
        """
        # each different label once
        _, first, inverse = np.unique(current.columns[LABELS], return_index=True, return_inverse=True)
        distinct = current.labels[first]
        names: list[list[str]] = [[] for _ in distinct]
        faults = np.zeros(len(distinct), np.int8)
        is_rare = np.zeros(len(distinct), np.int8)
        for index, name in enumerate(self.names):
            has_class = self.task.members(distinct, index)
            for position in np.flatnonzero(has_class).tolist():
                names[position].append(quoted_name(name))
            faults[has_class] += len(self.faults[index])
            is_rare[has_class] |= self.is_rare[index]

        name_of = np.array([", ".join(listed) or "none" for listed in names], dtype=object)
        columns = {"name_faults": faults[inverse], "class": name_of[inverse]}
        if split == "train":
            columns["rare_class"] = is_rare[inverse]
        return columns

    def notes(self, split: str) -> dict[str, list[str]]:
        """Return what the checks ``rare_classes``, ``absent_classes`` and ``class_names`` found, in words."""
        counts = self.counts.get(split, np.zeros(len(self.names), np.int64))
        faulty = []
        lines = []
        for index, faults in enumerate(self.faults):
            if faults and counts[index]:
                faulty.append(index)
                lines.append(f"class {quoted_name(self.names[index])} {' and '.join(faults)}")
        notes = {"class_names": lines}
        if split == "train":
            notes["rare_classes"] = self._rows(self.is_rare & (counts > 0))
            notes["absent_classes"] = self._rows(counts == 0)
        shown = {}
        for check, lines in notes.items():
            if lines:
                shown[check] = lines[:SHOWN]
            if len(lines) > SHOWN:
                shown[check].append(f"and {len(lines) - SHOWN:,} more")
        return shown

    def _rows(self, chosen: NDArray[np.bool_]) -> list[str]:
        """Describe how many rows classes have in each split."""
        lines = []
        for index in np.flatnonzero(chosen).tolist():
            rows = ", ".join(f"{count[index]:,} in {split}" for split, count in self.counts.items())
            lines.append(f"rows of class {quoted_name(self.names[index])}: {rows}")
        return lines


def like_other(names: Sequence[str], rows: Sequence[int]) -> dict[str, list[str]]:
    """Return, by name, which other class a class is like.

    It is the class of most rows whose name differs only in what a person does not see: case, white space,
    underscores and hyphens, a full stop at the end, invisible characters, letters that look the same.
    """
    groups: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name, count in zip(names, rows, strict=True):
        groups[name_key(name)].append((count, name))
    result = {}
    for group in groups.values():
        count, frequent = max(group, key=lambda row: row[0])
        for _, name in group:
            if name != frequent:
                result[name] = [f"is like class {quoted_name(frequent)} ({count:,} rows in all splits)"]
    return result


def name_key(name: str) -> str:
    """Return a name without what a person does not see."""
    text = unicodedata.normalize("NFKC", repaired(name).replace("´", "'")).casefold()
    visible = ""
    for character in text.translate(DRAWN_ALIKE):
        if character.isspace() or not _invisible(character):
            visible += str(unicodedata.decimal(character, character))
    text = NAME_SEPARATORS.sub(" ", " ".join(visible.split()))
    return text.rstrip(".,;: ").strip("'\" ") or name


def name_faults(name: str, label_column: str | None) -> Iterator[str]:
    """Yield what is wrong with the name of a class.

    Without ``label_column``, the user listed the name, so no word is questioned.
    """
    plain = name.casefold().strip(f"{BOM}'\" ")
    if label_column is not None and plain == label_column.casefold():
        yield "has the name of the label column: a header line became a row"
    if label_column is not None and plain in MISSING_WORDS:
        yield "reads like a missing value; list it in data.label_names if it is a class"
    if len(name) > LONGEST_NAME:
        yield f"has a name of {len(name):,} characters: a text became a label"
    elif repaired(name) != name:
        yield f"should read {quoted_name(repaired(name))}"


def quoted_name(name: str) -> str:
    """Return the start of a name in quotes."""
    if len(name) > SHOWN_CHARACTERS:
        name = f"{name[:SHOWN_CHARACTERS]}…"
    return f"'{name}'"


def _invisible(character: str) -> bool:
    """Return True for a character without an outline, and for a vowel sign of Hebrew or Arabic."""
    is_vowel_sign = 10 <= unicodedata.combining(character) <= 36
    is_ignorable = unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp")
    return is_ignorable or is_vowel_sign or INVISIBLE.match(character) is not None


def _counts(split: RawSplit) -> NDArray[np.int64]:
    """Count the rows of each class."""
    valid = split.labels[split.task.valid(split.labels)]
    return np.bincount(bin_values(split.task, valid), minlength=split.task.outputs)
