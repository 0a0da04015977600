"""Labelled rows: batches of values become texts and labels, and rows whose values cannot be used are left out or an error.

What names a class or a group is decided here: ``7``, ``7.0`` and ``"7"`` are one.
"""

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tuneline.core.errors import DataError
from tuneline.core.tables import UNLABELLED
from tuneline.readers.inputs import InputTable, ValueBatch
from tuneline.readers.rows import (
    STOP,
    BadRowPolicy,
    BadRows,
    RowProblem,
    check_columns,
    json_type,
    text_problem,
)
from tuneline.tasks import Classification, Task

LABEL = "label"
POSITION = "position"
LARGEST = float(np.finfo(np.float32).max)
WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.0+")
"""A whole number as text, written as a float is.

As the name of a class it is the same as without the decimals.
"""
JSON_LABELS = ("text", "true or false", "a number")
"""Types of JSON values that a label may have."""


class ValueProblemError(ValueError):
    """A value that cannot be used. The message does not quote it; the hint does."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def plain_text(value: Any) -> str | None:
    """Return a group, key or id as text: ``7``, ``7.0`` and ``"7"`` are the same.

    Missing and blank values are ``None``.
    """
    if value is None or value != value:  # NaN differs from itself  # noqa: PLR0124
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return (
        str(int(value) if isinstance(value, float | Decimal) and _is_whole(value) else value).strip() or None
    )


def group_name(value: Any) -> str | None:
    """Return a group, key or id as text. A list or an object is a ``ValueProblemError``."""
    if isinstance(value, list | dict):
        raise ValueProblemError(
            f"{json_type(value)} cannot be a group, a key or an id", "Name a column of text or numbers."
        )
    return plain_text(value)


def class_name(value: Any) -> str | None:
    """Return a label as the name of a class, a whole number without decimals: a CSV file of floats writes ``1.0`` for ``1``.

    A fraction, a list or an object is a ``ValueProblemError``.
    """
    _refuse_nested(value)
    name = plain_text(value)
    if (
        name is not None
        and isinstance(value, float | Decimal)
        and (not _is_whole(value) or abs(int(value)) >= 2**53)
    ):
        raise ValueProblemError(
            "the label is a fraction, not a class",
            f"It is {value}. Set data.task to regression if labels are numbers to predict.",
        )
    return str(int(float(name))) if name is not None and WHOLE_NUMBER.fullmatch(name) else name


DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def label_number(value: Any, decimal: str = ".") -> float | None:
    """Return a label as a number; ``None`` if it is missing or NaN.

    ``decimal`` is the character before its decimals.

    What does not fit 32 bits, and a whole number that not even 64 bits hold exactly, is a
    ``ValueProblemError``: that is an id.
    """
    _refuse_nested(value)
    if (text := plain_text(value)) is None:
        return None
    if decimal == ",":
        text = text.replace(",", ".")
    try:
        if (
            "_" in text or not text.isascii()
        ):  # Python reads 1_000 and digits of other scripts, other programs do not
            raise ValueError
        result = float(text)
    except ValueError:
        hint = f"It is {value!r}. Write it like 3.5 or 2e-5, or set data.task to classification."
        if DECIMAL_COMMA.fullmatch(text):
            hint = f"It is {value!r}, with a decimal comma: set data.files.decimal to ','."
        raise ValueProblemError("the label is not a number", hint) from None
    if abs(result) > LARGEST:
        raise ValueProblemError(
            "the label does not fit a 32-bit float", f"It is {result}. Correct it, or leave the row out."
        )
    if (digits := text.lstrip("+-0")).isdecimal() and int(digits) != abs(result):
        hint = f"{text} would become {result:.0f}. Name another column if it is an id, or scale the numbers."
        raise ValueProblemError("the label has more digits than a number holds", hint)
    return None if math.isnan(result) else result


def _declared_class(names: Sequence[str], value: int | None) -> str | None:
    """Return the name of a class that the datasets library stored as its id; -1 is a missing label."""
    if value is None or value == UNLABELLED:
        return None
    if not 0 <= value < len(names):
        raise ValueProblemError(
            f"the label is not one of the {len(names)} class ids", f"It is {value}. Correct the file."
        )
    return names[value]


def written_classes(names: Sequence[str], observed: Collection[str]) -> tuple[str, ...]:
    """Return how labels are written for each class: by its name, or by its id if no observed label but ids is a name."""
    written = tuple(class_name(name) or name for name in names)
    ids = tuple(str(position) for position in range(len(names)))
    return ids if not set(observed) <= set(written) and set(observed) <= set(ids) else written


def _refuse_nested(value: Any) -> None:
    if isinstance(value, list | dict):
        raise ValueProblemError(
            f"a label is text or a number, not {json_type(value)}", "Name another column."
        )


def _is_whole(value: float | Decimal) -> bool:
    return math.isfinite(value) and value == int(value)


@dataclass(frozen=True)
class LabelledColumns:
    """The columns of labelled rows.

    Attributes:
        texts: One or two names; none for late labels, which have ids instead of texts.
        kind: The kind of task, which says what labels are.
        others: Further columns, which are read as text: for each, the parameter that names it.
        optional: Columns that the file need not have.
        sparse: A key that a JSON object lacks is a missing value, as long as any object has it; otherwise
            that row is bad.
    """

    texts: tuple[str, ...]
    label: str
    kind: type[Task] = Classification
    others: Mapping[str, str] = field(default_factory=dict)
    optional: Collection[str] = ()
    sparse: bool = False
    policy: BadRowPolicy = STOP

    @property
    def options(self) -> dict[str, str]:
        """The parameter that names each column."""
        known = dict.fromkeys(self.texts, "data.text_columns") | {self.label: "data.label_column"}
        return known | {name: option for name, option in self.others.items() if name not in known}

    @property
    def everywhere(self) -> list[str]:
        """Keys without which a JSON object is a bad row."""
        return [name for name in (*self.texts, self.label) if not self.sparse and name not in self.optional]

    def check(self, present: Sequence[str], where: str, hint: str | None = None) -> dict[str, str]:
        """Return the columns that are present, with the parameters that name them.

        Raises:
            DataError: A column that is not optional is missing, or one occurs twice.
        """
        required = {
            name: option
            for name, option in self.options.items()
            if name in present or name not in self.optional
        }
        check_columns(present, required, where, hint)
        return required

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches: ``text_0``, ``other_0``, ..., ``label`` (class name or number), ``position``. What is missing is null."""
        texts = [pa.field(f"text_{index}", pa.string()) for index in range(len(self.texts))]
        others = [pa.field(f"other_{index}", pa.string()) for index in range(len(self.others))]
        label = pa.field(LABEL, self.kind.staged_type)
        return pa.schema([*texts, *others, label, pa.field(POSITION, pa.int64(), nullable=False)])


def has_text(texts: Sequence[pa.Array]) -> pa.BooleanArray:
    """Return which rows have a text. One text of a pair may be empty, but not null."""
    present, filled = pc.is_valid(texts[0]), _is_filled(texts[0])
    for text in texts[1:]:
        present, filled = pc.and_(present, pc.is_valid(text)), pc.or_(filled, _is_filled(text))
    return pc.and_(present, filled)


def _is_filled(text: pa.Array) -> pa.BooleanArray:
    return pc.not_equal(pc.utf8_trim_whitespace(pc.fill_null(text, "")), "")


class BadValues:
    """The rows of one batch whose values cannot be used: they are reported to the bad rows of the file."""

    def __init__(
        self, bad: BadRows, positions: Sequence[int], columns: Mapping[str, pa.Array | list[Any]]
    ) -> None:
        self._bad, self._positions, self._columns = bad, positions, columns
        self.rows: set[int] = set()

    def add(self, row: int, column: str, message: str, hint: str) -> None:
        """Report a row, once; a ``DataError`` if bad rows are an error."""
        if row not in self.rows:
            self.rows.add(row)
            content = json.dumps(
                {name: _plain(values[row]) for name, values in self._columns.items()},
                ensure_ascii=False,
                default=str,
            )
            self._bad.add(RowProblem(int(_plain(self._positions[row])), message, hint, column, content))

    def converted(
        self, name: str, values: pa.Array | list[Any], convert: Callable[[Any], Any], kind: pa.DataType
    ) -> pa.Array:
        """Return the converted values of a column, each distinct one converted once; those that cannot be used are null, and reported."""
        distinct, codes = _encoded(values)
        results, problems = [], dict[int, tuple[str, str, str]]()
        for code, value in enumerate(distinct):
            result = None
            try:
                result = convert(value)
            except ValueProblemError as error:
                problems[code] = repr(name), str(error), error.hint
            if isinstance(result, str) and (message := text_problem(result, name)):
                result, problems[code] = None, ("", message, "Correct the escape sequence.")
            results.append(result)
        if problems:
            found = pc.is_in(codes, pa.array(list(problems), codes.type))
            for row in np.flatnonzero(found.to_numpy(zero_copy_only=False)).tolist():
                self.add(row, *problems[codes[row].as_py()])
        return pa.array(results, kind).take(codes)

    def without(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the other rows of the batch."""
        if not self.rows:
            return batch
        kept = np.ones(batch.num_rows, dtype=bool)
        kept[list(self.rows)] = False
        return batch.filter(pa.array(kept))


def _plain(value: Any) -> Any:
    return value.as_py() if isinstance(value, pa.Scalar) else value


def _encoded(values: pa.Array | list[Any]) -> tuple[list[Any], pa.Array]:
    """Return the distinct values, and for each row the number of its value."""
    if isinstance(values, pa.Array):
        encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        return encoded.dictionary.to_pylist(), encoded.indices
    known: dict[Any, int] = {}
    distinct: list[Any] = []
    codes = []
    for value in values:
        key = (
            type(value),
            repr(value) if isinstance(value, list | dict) else value,
        )  # 1, 1.0 and True are equal
        if (code := known.setdefault(key, len(distinct))) == len(distinct):
            distinct.append(value)
        codes.append(code)
    return distinct, pa.array(codes, pa.int64())


Convert = Callable[[Any], Any]
"""Returns a value as a label; a ``ValueProblemError`` if it is none."""


class _LabelColumn(ABC):
    """What the values of the label column of one file mean."""

    def __init__(self, place: str, declared: Sequence[str] | None, decimal: str) -> None:
        self._place, self._declared, self._decimal = place, declared, decimal

    @abstractmethod
    def of_type(self, kind: pa.DataType) -> Convert:
        """Return what converts values of an Arrow type; a ``DataError`` if they cannot be labels."""

    @abstractmethod
    def of_json(self, values: list[Any], positions: Sequence[int]) -> Convert:
        """Return what converts these values of JSON objects."""


class _ClassNames(_LabelColumn):
    """Values are classes."""

    _first: tuple[str, int] | None = None  # type and line of the first label of JSON Lines

    def of_type(self, kind: pa.DataType) -> Convert:
        if not (_is_numeric(kind) or pa.types.is_boolean(kind)):
            hint = "Take a column of text or of whole numbers."
            raise DataError(f"{self._place}: labels of type {kind} cannot be class names.", hint)
        if self._declared is not None and pa.types.is_integer(kind):
            return partial(_declared_class, self._declared)
        return class_name

    def of_json(self, values: list[Any], positions: Sequence[int]) -> Convert:
        given = zip(values, positions, strict=True)
        labels = ((json_type(value), line) for value, line in given if plain_text(value) is not None)
        self._first = self._first or next((label for label in labels if label[0] in JSON_LABELS), None)
        return self._of_one_type

    def _of_one_type(self, value: Any) -> str | None:
        """Convert a label of JSON Lines; 1 and "one" in the same file are an error of who wrote it."""
        result = class_name(value)
        if result is not None and self._first is not None and (kind := json_type(value)) != self._first[0]:
            first, line = self._first
            hint = f"It is {value!r}. Write all labels alike."
            raise ValueProblemError(f"the label is {kind}, but that in line {line:,} is {first}", hint)
        return result


class _Numbers(_LabelColumn):
    """Values are numbers."""

    def of_type(self, kind: pa.DataType) -> Convert:
        if not _is_numeric(kind):
            hint = "Take a column of numbers, or set data.task to classification."
            raise DataError(f"{self._place}: labels of type {kind} are not numbers.", hint)
        return partial(label_number, decimal=self._decimal)

    def of_json(self, values: list[Any], positions: Sequence[int]) -> Convert:  # noqa: ARG002
        return partial(label_number, decimal=self._decimal)


def _is_numeric(kind: pa.DataType) -> bool:
    """Return True for numbers, and for text and nulls, which can be numbers."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(is_number or _is_text(kind) or pa.types.is_null(kind))


_LABEL_COLUMNS: Mapping[pa.DataType, type[_LabelColumn]] = {pa.string(): _ClassNames, pa.float64(): _Numbers}
"""What values mean, by the type that a task has them in: ``Task.staged_type``."""


class _Converter:
    """Converts the batches of one file."""

    def __init__(
        self, columns: LabelledColumns, bad: BadRows, declared: Sequence[str] | None, decimal: str
    ) -> None:
        self._columns, self._bad = columns, bad
        place = f"{bad.name}, column {columns.label!r}"
        self._labels = _LABEL_COLUMNS[columns.kind.staged_type](place, declared, decimal)

    def convert(self, batch: ValueBatch) -> pa.RecordBatch:
        columns, given = self._columns, batch.columns
        used = {name: given[name] for name in (*columns.texts, columns.label) if name in given}
        bad, rows = BadValues(self._bad, batch.positions, used), len(batch.positions)
        texts = [self._text(bad, name, given[name]) for name in columns.texts]
        others = [
            self._other(bad, name, given[name]) if name in given else pa.nulls(rows, pa.string())
            for name in columns.others
        ]
        labels = pa.nulls(rows, columns.kind.staged_type)
        if columns.label in given:
            labels = self._label(bad, given[columns.label], batch.positions)
        values = [*texts, *others, labels, pa.array(batch.positions, pa.int64())]
        return bad.without(pa.record_batch(values, schema=columns.schema))

    def _text(self, bad: BadValues, name: str, values: pa.Array | list[Any]) -> pa.Array:
        if isinstance(values, pa.Array):
            if not (_is_text(values.type) or pa.types.is_null(values.type)):
                raise DataError(
                    f"{self._bad.name}: column {name!r} holds {values.type}, not text.",
                    "Name another in data.text_columns.",
                )
            return values.cast(pa.string())
        try:
            return pa.array(values, pa.string())
        except (
            pa.ArrowException,
            UnicodeEncodeError,
        ):  # JSON has values of any type, and halves of characters
            problems = [None if value is None else text_problem(value, name) for value in values]
        for row, problem in enumerate(problems):
            if problem is not None:
                bad.add(
                    row,
                    "",
                    problem,
                    "Put text in quotes, correct the escape sequence, or name another column.",
                )
        return pa.array(
            [None if problem else value for value, problem in zip(values, problems, strict=True)], pa.string()
        )

    def _other(self, bad: BadValues, name: str, values: pa.Array | list[Any]) -> pa.Array:
        if isinstance(values, pa.Array):
            if pa.types.is_nested(values.type) or pa.types.is_binary(values.type):
                hint = f"Name a column of text, numbers or dates in {self._columns.others[name]}."
                raise DataError(
                    f"{self._bad.name}, column {name!r}: values of type {values.type} cannot be groups.", hint
                )
            values = values.cast(pa.string()) if pa.types.is_temporal(values.type) else values
        return bad.converted(name, values, group_name, pa.string())

    def _label(self, bad: BadValues, values: pa.Array | list[Any], positions: Sequence[int]) -> pa.Array:
        if isinstance(values, pa.Array):
            convert = self._labels.of_type(values.type)
            values = values.cast(pa.string()) if _is_text(values.type) else values
        else:
            convert = self._labels.of_json(values, positions)
        return bad.converted(self._columns.label, values, convert, self._columns.kind.staged_type)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def labelled_batches(
    batches: Iterable[ValueBatch],
    columns: LabelledColumns,
    bad: BadRows,
    declared: Sequence[str] | None = None,
    decimal: str = ".",
) -> Iterator[pa.RecordBatch]:
    """Convert batches of values to texts and labels, of ``LabelledColumns.schema``.

    Optional columns may be missing; ``declared`` has class names, where labels are stored as ids. ``decimal``
    is as in ``Dialect``.

    Raises:
        DataError: A column cannot be used as text or label, or a row is bad and that is an error; while
            reading.
    """
    return map(_Converter(columns, bad, declared, decimal).convert, batches)


def labelled_rows(table: InputTable, columns: LabelledColumns, bad: BadRows) -> Iterator[pa.RecordBatch]:
    """Yield the labelled rows of an open file in batches of ``LabelledColumns.schema``; a missing column is a ``DataError``."""
    is_json = table.source.kind == "jsonl"
    present = columns.options if is_json else columns.check(table.names(), table.name, table.hint)
    batches = table.batches(present, bad, everywhere=columns.everywhere)
    yield from labelled_batches(
        batches, columns, bad, table.declared(columns.label), table.source.dialect.decimal
    )
    if is_json and table.keys:
        columns.check(list(table.keys), table.name)
