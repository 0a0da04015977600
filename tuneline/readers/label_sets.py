"""What the values of a file mean where a label is a set of names, in each layout of ``data.label_sets``.

A set has each name once, sorted, so that equal sets are equal however they are written. The empty set is a
label: no name applies. A missing label is null, and says nothing; in a cell of text it is ``?``, because an
empty one is the empty set.
"""

import ast
import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tuneline.params.data import LabelSetsParams
from tuneline.readers.bad_values import BadValues
from tuneline.readers.label_columns import (
    Convert,
    LabelColumn,
    LabelFormat,
    LabelReader,
    is_numeric,
    is_text,
)
from tuneline.readers.label_values import ValueProblemError, class_name, declared_class, plain_text
from tuneline.readers.parquet import is_list
from tuneline.readers.row_texts import json_type, text_problem
from tuneline.readers.tables import ValueBatch
from tuneline.runtime.errors import DataError, ParamsError
from tuneline.tasks.multilabel import NO_LABELS, UNFILLED
from tuneline.tasks.task import UNLABELLED

NAME_SETS = pa.list_(pa.string())
"""Arrow type of sets of names."""
LISTS = LabelSetsParams(layout="lists")
SHOWN = 80
"""Characters of a value in a message."""


class NameSetColumn(LabelColumn):
    """Reads sets from one column."""

    label_type: ClassVar[pa.DataType] = NAME_SETS

    def of_type(self, kind: pa.DataType) -> Convert:
        """Accept text, numbers, and true and false, which can be names."""
        if not (is_numeric(kind) or pa.types.is_boolean(kind)):
            hint = "Take a column of text, or of lists of text."
            raise DataError(f"{self._written.place}: labels of type {kind} cannot be class names.", hint)
        return self._of_value

    def of_json(self, values: list[Any], positions: Sequence[int]) -> Convert:  # noqa: ARG002
        """Accept what the layout accepts."""
        return self._of_value

    def _of_value(self, value: Any) -> list[str] | None:
        """Return a value as a set; ``None`` if it is missing."""
        if isinstance(value, list):
            hint = (
                f"It is {_shown(value)}. If all labels are lists, set data.label_sets to {{layout: lists}}."
            )
            raise ValueProblemError("the labels are a list, not text", hint)
        if isinstance(value, str):
            return None if value.strip() == UNFILLED else self._of_text(value)
        name = class_name(value)
        if name is None:
            return None
        return [name]

    @abstractmethod
    def _of_text(self, text: str) -> list[str] | None:
        """Return the set that a text means."""


class SeparatedNames(NameSetColumn):
    """Names in one cell, with a separator between them."""

    def _of_text(self, text: str) -> list[str]:
        return set_of_names(separated(text, sets_of(self._written).separator or ";"))


class VectorNames(NameSetColumn):
    """A 0 or 1 for each label: the names are the positions."""

    def _of_value(self, value: Any) -> list[str] | None:
        if isinstance(value, list):
            return self._of_text(" ".join(map(str, value)))
        return super()._of_value(value)

    def _of_text(self, text: str) -> list[str] | None:
        if not text.strip():
            return None
        digits = vector(text)
        if digits is None:
            raise ValueProblemError(
                "the labels are not a 0 or 1 for each label", f"It is {_shown(text)}. Write it like 0100."
            )
        length = len(digits)
        if self._length is None:
            self._length = length
        if length != self._length:
            raise ValueProblemError(
                f"the vector of labels has {length} elements, that of the first row {self._length}",
                f"It is {_shown(text)}. Write a 0 or 1 for each label.",
            )
        return sorted(str(position) for position, digit in enumerate(digits) if digit == "1")

    _length: int | None = None


class SingleNames(NameSetColumn):
    """One name in each row; rows of the same texts are joined later (``tuneline.readers.joined_rows``)."""

    def _of_text(self, text: str) -> list[str]:
        return set_of_names([text])


class ListedNames(NameSetColumn):
    """Lists of names: of JSON or Arrow, or as text."""

    def read(self, batch: ValueBatch, bad: BadValues) -> pa.Array:
        """Return the sets of a batch."""
        values = batch.columns[self._written.column]
        if isinstance(values, pa.Array) and is_list(values.type):
            return bad.converted(self._written.column, values.to_pylist(), self._of_value, self.label_type)
        return super().read(batch, bad)

    def _of_value(self, value: Any) -> list[str] | None:
        if isinstance(value, list):
            return self._of_elements(value)
        if isinstance(value, str):
            return None if value.strip() == UNFILLED else self._of_text(value)
        if plain_text(value) is None:
            return None
        hint = f"It is {_shown(value)}. {LIST_HINT}"
        raise ValueProblemError(f"the labels are {json_type(value)}, not a list", hint)

    def _of_text(self, text: str) -> list[str] | None:
        return self._of_elements(parse_list(text))

    def _of_elements(self, elements: list[Any]) -> list[str] | None:
        """Return the elements of a list as a set; ``None`` if one is -1, the id of a missing label."""
        names = []
        for element in elements:
            is_missing = element is None or element != element  # NaN  # noqa: PLR0124
            if is_missing or isinstance(element, (list, dict)):
                kind = "null" if is_missing else json_type(element)
                raise ValueProblemError(
                    f"the list of labels has {kind} in it", f"It is {_shown(elements)}. {LIST_HINT}"
                )
            is_id = isinstance(element, int) and not isinstance(element, bool)
            if is_id and self._written.declared is not None:
                name = declared_class(self._written.declared, element)
                if name is None:
                    return None
            else:
                name = class_name(element) or ""
            names.append(name)
        return set_of_names(names)


class IndicatorColumns(LabelReader):
    """A column of 0 and 1 for each label."""

    label_type: ClassVar[pa.DataType] = NAME_SETS

    def read(self, batch: ValueBatch, bad: BadValues) -> pa.Array:
        """Return the names of the columns with 1; null for a row in which any value is missing."""
        columns = sorted(sets_of(self._written).columns or [])
        missing = np.zeros(len(batch.positions), dtype=bool)
        indicators = []
        for name in columns:
            column = self._indicators(name, batch.columns[name], bad)
            missing |= column.is_null().to_numpy(zero_copy_only=False)
            indicators.append(pc.fill_null(column, False).to_numpy(zero_copy_only=False))

        # The names of the columns of a row are next to each other, in the order of the columns.
        applies = np.stack(indicators, axis=1) & ~missing[:, np.newaxis]
        _, positions = np.nonzero(applies)
        names = pa.array([class_name(name) or name for name in columns], pa.string())
        offsets = np.append(0, np.cumsum(applies.sum(axis=1))).astype(np.int32)
        return pa.ListArray.from_arrays(
            pa.array(offsets), names.take(pa.array(positions)), mask=pa.array(missing)
        )

    def _indicators(self, name: str, values: pa.Array | list[Any], bad: BadValues) -> pa.Array:
        """Return which rows have the label of a column, as booleans; null for a missing value."""
        if isinstance(values, pa.Array):
            if not (is_numeric(values.type) or pa.types.is_boolean(values.type)):
                raise DataError(
                    f"{self._written.file}, column {name!r}: values of type {values.type} are not 0 or 1.",
                    "Write 0 and 1, or leave the column out of data.label_sets.columns.",
                )
            if is_text(values.type):
                values = values.cast(pa.string())
        return bad.converted(name, values, indicator, pa.bool_())


class NameColumns(LabelReader):
    """Several columns, each with a name or nothing."""

    label_type: ClassVar[pa.DataType] = NAME_SETS

    def read(self, batch: ValueBatch, bad: BadValues) -> pa.Array:
        """Return the names of each row. Which of its columns has a name says nothing."""
        names = []
        for column in sets_of(self._written).columns or []:
            values = batch.columns[column]
            if isinstance(values, pa.Array) and is_text(values.type):
                values = values.cast(pa.string())
            names.append(bad.converted(column, values, class_name, pa.string()).to_pylist())
        rows = []
        for row in zip(*names, strict=True):
            rows.append(set_of_names(name or "" for name in row))
        return pa.array(rows, NAME_SETS)


INDICATORS = {
    "1": True,
    "true": True,
    "t": True,
    "yes": True,
    "y": True,
    "x": True,
    "0": False,
    "false": False,
    "f": False,
    "no": False,
    "n": False,
}
"""What a column of a label may have, in lower case."""


def indicator(value: Any) -> bool | None:
    """Return True if a label applies: 1, or a word for it; False for 0 and for an empty cell.

    ``None`` for a missing value: null, NaN, -1, or ``?``.

    Raises:
        ValueProblemError: It is something else.
    """
    if isinstance(value, str) and not value.strip():
        return False
    if isinstance(value, (list, dict)):
        text: str | None = json_type(value)
    else:
        text = plain_text(value)
    if text is None:
        return None
    text = text.lower().removesuffix(".0")
    if text in (str(UNLABELLED), UNFILLED):
        return None
    if text not in INDICATORS:
        hint = (
            f"It is {_shown(value)}. Write 1 where the label applies, else 0 (or true and false, yes and no);"
            " or leave the column out of data.label_sets.columns."
        )
        raise ValueProblemError("the value is not 0 or 1", hint)
    return INDICATORS[text]


def set_of_names(parts: Iterable[str]) -> list[str]:
    """Return the set of the names in these texts: without empty ones and repeats, sorted.

    ``NO_LABELS`` is no name: people who read it may write it into their files.

    Raises:
        ValueProblemError: A name is no text.
    """
    names = set()
    for part in parts:
        name = class_name(part)
        if name is None or name == NO_LABELS:
            continue
        if text_problem(name, "") is not None:
            raise ValueProblemError("a label has an unpaired surrogate", "Correct the escape sequence.")
        names.add(name)
    return sorted(names)


BRACKETS = ("><", "][", "}{", ")(")
"""Separators of names in brackets, ``<a><b>``: the ends of the cell have the outer brackets."""


def separated(text: str, separator: str) -> list[str]:
    """Return the parts of a cell."""
    if separator in BRACKETS:
        text = text.strip().removeprefix(separator[1]).removesuffix(separator[0])
    return text.split(separator)


VECTOR = re.compile(r"[\[(]?\s*[01](?:[\s,;]*[01])+\s*[\])]?")


def vector(text: str) -> str | None:
    """Return the digits of a 0 or 1 for each label; ``None`` if a text is something else."""
    if not VECTOR.fullmatch(text.strip()):
        return None
    return "".join(character for character in text if character in "01")


LIST_HINT = """Write a flat list, ["a", "b"] or ['a', 'b'], and [] where no label applies."""
_WORDS = r"[^\s,'\"\[\](){}:]+(?:\s+[^\s,'\"\[\](){}:]+)*"
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_NEXT = rf"\s*,\s*(?:{_QUOTED}|{_WORDS})|\s+(?:{_QUOTED})"  # NumPy writes no commas
_LIST = re.compile(rf"[\[({{]\s*(?:(?:{_QUOTED}|{_WORDS})(?:{_NEXT})*\s*,?\s*)?[\])}}]", re.DOTALL)
_ITEMS = re.compile(rf"{_QUOTED}|{_WORDS}", re.DOTALL)
EMPTY_SET = "set()"
"""How Python writes an empty set."""
NO_VALUE = {"None", "null", "nan", "NaN"}
"""How a list as text has a missing value."""


def parse_list(text: str) -> list[Any]:
    """Return the elements of a list that is written as text.

    As JSON, as Python, or as NumPy (without commas), with or without quotes: ``["a"]``, ``('a', 'b')``,
    ``['a' 'b']``, ``[a, 2]``. An empty text is an empty list.

    Raises:
        ValueProblemError: It is not a flat list.
    """
    text = text.strip()
    if text in {"", EMPTY_SET}:
        return []
    if text.startswith("["):
        try:
            elements: list[Any] = json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return elements

    hint = f"It is {_shown(text)}. {LIST_HINT}"
    if not _LIST.fullmatch(text):
        raise ValueProblemError("the labels are not a list", hint)
    elements = []
    for item in _ITEMS.findall(text):
        if item[0] in "'\"":
            try:
                elements.append(ast.literal_eval(item))
            except (SyntaxError, ValueError):  # an invalid escape sequence
                raise ValueProblemError("the labels are not a list", hint) from None
        elif item in NO_VALUE:
            elements.append(None)
        else:
            elements.append(item)
    return elements


def _shown(value: Any) -> str:
    """Return a value for a message, cut where it is long."""
    shown = repr(value)
    if len(shown) > SHOWN:
        shown = f"{shown[:SHOWN]}…"
    return shown


def sets_of(written: LabelFormat) -> LabelSetsParams:
    """Return how a file writes sets; a ``ParamsError`` if the parameters do not say it."""
    if written.sets is None:
        raise ParamsError(
            f"{written.place}: data.label_sets is null, so it is not known how several labels are written.",
            "Set it, for example to {layout: separated, separator: ';'}.",
        )
    return written.sets


_LAYOUTS: Mapping[str, Callable[[LabelFormat], LabelReader]] = {
    "separated": SeparatedNames,
    "lists": ListedNames,
    "vectors": VectorNames,
    "columns": IndicatorColumns,
    "name_columns": NameColumns,
    "rows": SingleNames,
}


def open_label_sets(written: LabelFormat) -> LabelReader:
    """Return the reader of the sets of one file, in the layout in which they are written."""
    return _LAYOUTS[sets_of(written).layout](written)
