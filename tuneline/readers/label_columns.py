"""What the values of a label column mean: names of classes, or numbers. Sets are in ``label_sets``."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from tuneline.params.data import LabelSetsParams
from tuneline.readers.bad_values import BadValues
from tuneline.readers.label_values import (
    USUAL_NUMBERS,
    NumberFormat,
    ValueProblemError,
    class_name,
    declared_class,
    label_number,
    plain_text,
)
from tuneline.readers.row_texts import json_type
from tuneline.readers.tables import ValueBatch
from tuneline.runtime.errors import DataError

JSON_LABELS = ("text", "true or false", "a number")
"""Types of JSON values that a label may have."""

Convert = Callable[[Any], Any]
"""Returns a value as a label; a ``ValueProblemError`` if it is none."""


@dataclass(frozen=True)
class LabelFormat:
    """How one file writes its labels.

    Attributes:
        file: Name of the file, for messages.
        column: The label column.
        declared: Class names by their ids, where labels are stored as ids.
        numbers: How numbers are written.
        sets: How labels that are sets are written.
    """

    file: str
    column: str
    declared: Sequence[str] | None = None
    numbers: NumberFormat = USUAL_NUMBERS
    sets: LabelSetsParams | None = None

    @property
    def place(self) -> str:
        """The file and the column, for messages."""
        return f"{self.file}, column {self.column!r}"


class LabelReader(ABC):
    """Reads the labels of one file."""

    label_type: ClassVar[pa.DataType]
    """Arrow type of the labels."""

    def __init__(self, written: LabelFormat) -> None:
        self._written = written

    @abstractmethod
    def read(self, batch: ValueBatch, bad: BadValues) -> pa.Array:
        """Return the labels of a batch, of ``label_type``.

        Labels that cannot be used are reported, and null.

        Raises:
            DataError: A column cannot hold labels.
        """


class LabelColumn(LabelReader):
    """Reads labels from one column."""

    def read(self, batch: ValueBatch, bad: BadValues) -> pa.Array:
        """Return the labels of a batch, each distinct value converted once."""
        values = batch.columns[self._written.column]
        if isinstance(values, pa.Array):
            convert = self.of_type(values.type)
            if is_text(values.type):
                values = values.cast(pa.string())
        else:
            convert = self.of_json(values, batch.positions)
        return bad.converted(self._written.column, values, convert, self.label_type)

    @abstractmethod
    def of_type(self, kind: pa.DataType) -> Convert:
        """Return what converts values of an Arrow type; a ``DataError`` if they cannot be labels."""

    @abstractmethod
    def of_json(self, values: list[Any], positions: Sequence[int]) -> Convert:
        """Return what converts these values of JSON objects."""


class ClassColumn(LabelColumn):
    """Values are classes."""

    label_type: ClassVar[pa.DataType] = pa.string()
    _first: tuple[str, int] | None = None  # type and line of the first label of JSON Lines

    def of_type(self, kind: pa.DataType) -> Convert:
        """Accept text and numbers; whole numbers are ids where the file declares the names."""
        if not (is_numeric(kind) or pa.types.is_boolean(kind)):
            hint = "Take a column of text or of whole numbers."
            raise DataError(f"{self._written.place}: labels of type {kind} cannot be class names.", hint)
        declared = self._written.declared
        if declared is not None and pa.types.is_integer(kind):
            return partial(declared_class, declared)
        return class_name

    def of_json(self, values: list[Any], positions: Sequence[int]) -> Convert:
        """Accept values of the type that the first label of the file has."""
        if self._first is None:
            self._first = self._first_label(values, positions)
        return self._of_one_type

    @staticmethod
    def _first_label(values: list[Any], positions: Sequence[int]) -> tuple[str, int] | None:
        """Return the JSON type and the line of the first label that is not missing."""
        for value, line in zip(values, positions, strict=True):
            if plain_text(value) is None:
                continue
            kind = json_type(value)
            if kind in JSON_LABELS:
                return kind, line
        return None

    def _of_one_type(self, value: Any) -> str | None:
        """Convert a label of JSON Lines; 1 and "one" in the same file are an error of who wrote it."""
        name = class_name(value)
        if name is None or self._first is None:
            return name

        kind = json_type(value)
        first_kind, line = self._first
        if kind != first_kind:
            hint = f"It is {value!r}. Write all labels alike."
            raise ValueProblemError(f"the label is {kind}, but that in line {line:,} is {first_kind}", hint)
        return name


class NumberColumn(LabelColumn):
    """Values are numbers."""

    label_type: ClassVar[pa.DataType] = pa.float64()

    def of_type(self, kind: pa.DataType) -> Convert:
        """Accept numbers, and text, which can be numbers."""
        if not is_numeric(kind):
            hint = "Take a column of numbers, or set data.task to classification."
            raise DataError(f"{self._written.place}: labels of type {kind} are not numbers.", hint)
        return partial(label_number, numbers=self._written.numbers)

    def of_json(self, values: list[Any], positions: Sequence[int]) -> Convert:  # noqa: ARG002
        """Accept numbers, also as text."""
        return partial(label_number, numbers=self._written.numbers)


def is_numeric(kind: pa.DataType) -> bool:
    """Return True for numbers, and for text and nulls, which can be numbers."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(is_number or is_text(kind) or pa.types.is_null(kind))


def is_text(kind: pa.DataType) -> bool:
    """Return True for text of any kind."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
