"""Classes that a person would question: rare ones, and those whose names look like a mistake."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stages.validate.raw import BOM, RawSplit
from tuneline.analysis.label_bins import bin_values
from tuneline.analysis.text import repaired
from tuneline.params import Params
from tuneline.tasks import Task
from tuneline.tasks.task import Labels

LONGEST_NAME = 100
"""Characters. A longer name is a text in the label column."""
SHOWN = 10
"""Classes, and rows, that are described."""
SHOWN_CHARACTERS = 60
"""Characters of a name in a note."""
MISSING_VALUES = frozenset({"nan", "null", "none", "nil", "na", "n/a", "#n/a", "<na>", "nat", "undefined"})
"""How programs write a missing value, in lower case."""
NAME_SEPARATORS = re.compile(r"(?<=\w)[\s_\-\u2010-\u2015]+(?=\w)")
"""White space, underscores and hyphens between letters or digits.

``not_spam`` is like ``not spam``, but ``-1`` is not like ``1``.
"""
JOINERS = "\u200c\u200d"
"""Invisible characters that Persian, the languages of India and emoji need inside a word."""


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
        if not task.class_names or "train" not in raw or not raw["train"].is_labelled:
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

    def columns(self, split: str, labels: Labels, is_header: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """Return columns of shape ``(rows,)`` for rows of a split, given their labels.

        ``class`` is the name in quotes, or several; ``rare_class``, of train, is 1 or 0; ``name_faults``
        counts what is wrong with the name.
        """
        # each different label once: a batch has many rows, and few of them
        _, first, inverse = np.unique(self.task.codes(labels), return_index=True, return_inverse=True)
        distinct = labels[first]
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
        columns = {"name_faults": faults[inverse] + is_header.astype(np.int8), "class": name_of[inverse]}
        if split == "train":
            columns["rare_class"] = is_rare[inverse]
        return columns

    def notes(self, split: str, current: RawSplit) -> dict[str, list[str]]:
        """Return what the checks ``rare_classes``, ``absent_classes`` and ``class_names`` found, in words."""
        counts = self.counts.get(split, np.zeros(len(self.names), np.int64))
        has_faults = np.array(list(map(bool, self.faults))) & (counts > 0)
        headers = np.flatnonzero(current.columns.column("is_header"))
        notes = {
            "class_names": _described(
                has_faults.nonzero()[0],
                lambda index: f"class {self._name(index)} {' and '.join(self.faults[index])}",
            )
            + _described(headers, lambda row: f"row {row}: its texts are the names of the columns")
        }
        if split == "train":
            notes["rare_classes"] = _described(np.flatnonzero(self.is_rare & (counts > 0)), self._rows)
            notes["absent_classes"] = _described(np.flatnonzero(counts == 0), self._rows)
        return {check: lines for check, lines in notes.items() if lines}

    def _name(self, index: int) -> str:
        return quoted_name(self.names[index])

    def _rows(self, index: int) -> str:
        rows = ", ".join(f"{count[index]:,} in {split}" for split, count in self.counts.items())
        return f"rows of class {self._name(index)}: {rows}"


def like_other(names: Sequence[str], rows: Sequence[int]) -> dict[str, list[str]]:
    """Return, by name, which other class a class is like.

    It is the class of most rows whose name differs only in what a person does not see: case, white space,
    underscores and hyphens, a full stop at the end, invisible characters.
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
    text = unicodedata.normalize("NFKC", repaired(name)).casefold()
    visible = "".join(character for character in text if character.isspace() or not _invisible(character))
    text = NAME_SEPARATORS.sub(" ", " ".join(visible.split()))
    return text.rstrip(".,;: ").strip("'\" ") or name


def name_faults(name: str, label_column: str | None) -> Iterator[str]:
    """Yield what is wrong with the name of a class.

    Without ``label_column``, the user listed the name, so no word is questioned.
    """
    plain = name.casefold().strip(f"{BOM}'\" ")
    if label_column is not None and plain == label_column.casefold():
        yield "has the name of the label column: a header line became a row"
    if label_column is not None and plain in MISSING_VALUES:
        yield "reads like a missing value; list it in data.label_names if it is a class"
    if len(name) > LONGEST_NAME:
        yield f"has a name of {len(name):,} characters: a text became a label"
    elif repaired(name) != name:
        yield f"should read {quoted_name(repaired(name))}"
    for character in name:
        if _invisible(character) and character not in JOINERS:
            yield f"has an invisible character, U+{ord(character):04X}"
            return


def quoted_name(name: str) -> str:
    """Return the start of a name in quotes."""
    if len(name) > SHOWN_CHARACTERS:
        name = f"{name[:SHOWN_CHARACTERS]}…"
    return f"'{name}'"


def _invisible(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp")


def _described(numbers: NDArray[np.int64], describe: Callable[[int], str]) -> list[str]:
    """Describe the first classes or rows with these numbers, and say how many more there are."""
    lines = list(map(describe, numbers[:SHOWN].tolist()))
    if len(numbers) > SHOWN:
        lines.append(f"and {len(numbers) - SHOWN:,} more")
    return lines


def _counts(split: RawSplit) -> NDArray[np.int64]:
    """Count the rows of each class, reading a part of the rows at a time."""
    counts = np.zeros(split.task.outputs, np.int64)
    for labels in split.label_batches():
        valid = labels[split.task.valid(labels)]
        counts += np.bincount(bin_values(split.task, valid), minlength=split.task.outputs)
    return counts
