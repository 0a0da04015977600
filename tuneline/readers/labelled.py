"""Labelled rows: batches of values become texts and labels.

Rows whose values cannot be used are left out, or are an error. What names a class or a group is decided here:
``7``, ``7.0`` and ``"7"`` are the same.
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
    if isinstance(value, float | Decimal) and _is_whole(value):
        return str(int(value))
    return str(value).strip() or None


def group_name(value: Any) -> str | None:
    """Return a group, key or id as text. A list or an object is a ``ValueProblemError``."""
    if isinstance(value, list | dict):
        raise ValueProblemError(
            f"{json_type(value)} cannot be a group, a key or an id", "Name a column of text or numbers."
        )
    return plain_text(value)


def class_name(value: Any) -> str | None:
    """Return a label as the name of a class; ``None`` if it is missing.

    A whole number loses its decimals: a CSV file of floats writes ``1.0`` for ``1``.

    Raises:
        ValueProblemError: The label is a fraction, a list or an object.
    """
    _refuse_nested(value)
    name = plain_text(value)
    if name is None:
        return None

    # From 2**53 on, a float does not hold every whole number: two classes could become one.
    if isinstance(value, float | Decimal) and (not _is_whole(value) or abs(int(value)) >= 2**53):
        raise ValueProblemError(
            "the label is a fraction, not a class",
            f"It is {value}. Set data.task to regression if labels are numbers to predict.",
        )
    if WHOLE_NUMBER.fullmatch(name):
        return str(int(float(name)))
    return name


DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def label_number(value: Any, decimal: str = ".") -> float | None:
    """Return a label as a number; ``None`` if it is missing or NaN.

    Args:
        value: The label, as it is in the file.
        decimal: Character before the decimals.

    Raises:
        ValueProblemError: The label is not a number, does not fit 32 bits, or is a whole number that not even
            64 bits hold exactly, which is an id.
    """
    _refuse_nested(value)
    text = plain_text(value)
    if text is None:
        return None

    if decimal == ",":
        text = text.replace(",", ".")
    try:
        # Python reads 1_000 and digits of other scripts, other programs do not.
        if "_" in text or not text.isascii():
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
    digits = text.lstrip("+-0")
    if digits.isdecimal() and int(digits) != abs(result):
        hint = f"{text} would become {result:.0f}. Name another column if it is an id, or scale the numbers."
        raise ValueProblemError("the label has more digits than a number holds", hint)
    if math.isnan(result):
        return None
    return result


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
    """Return how labels are written for each class: by its name, or by its id.

    By its id only if the observed labels are all ids, and not all names.
    """
    written = tuple(class_name(name) or name for name in names)
    ids = tuple(str(position) for position in range(len(names)))
    if set(observed) <= set(written):
        return written
    if set(observed) <= set(ids):
        return ids
    return written


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
        options = dict.fromkeys(self.texts, "data.text_columns")
        options[self.label] = "data.label_column"
        for name, option in self.others.items():
            options.setdefault(name, option)
        return options

    @property
    def everywhere(self) -> list[str]:
        """Keys without which a JSON object is a bad row."""
        if self.sparse:
            return []
        return [name for name in (*self.texts, self.label) if name not in self.optional]

    def check(self, names: Sequence[str], where: str, hint: str | None = None) -> dict[str, str]:
        """Return the columns that a file has and needs, with the parameters that name them.

        Args:
            names: All columns of the file.
            where: The file, for messages.
            hint: What to do about a missing column.

        Raises:
            DataError: A column that is not optional is missing, or one occurs twice.
        """
        used = {}
        for name, option in self.options.items():
            if name in names or name not in self.optional:
                used[name] = option
        check_columns(names, used, where, hint)
        return used

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches: ``text_0``, ..., ``other_0``, ..., ``label``, ``position``.

        ``label`` is a class name or a number. What is missing is null.
        """
        fields = [pa.field(f"text_{index}", pa.string()) for index in range(len(self.texts))]
        fields += [pa.field(f"other_{index}", pa.string()) for index in range(len(self.others))]
        fields.append(pa.field(LABEL, self.kind.staged_type))
        fields.append(pa.field(POSITION, pa.int64(), nullable=False))
        return pa.schema(fields)


def has_text(texts: Sequence[pa.Array]) -> pa.BooleanArray:
    """Return which rows have a text. One text of a pair may be empty, but not null."""
    valid = pc.is_valid(texts[0])
    filled = _is_filled(texts[0])
    for text in texts[1:]:
        valid = pc.and_(valid, pc.is_valid(text))
        filled = pc.or_(filled, _is_filled(text))
    return pc.and_(valid, filled)


def _is_filled(text: pa.Array) -> pa.BooleanArray:
    return pc.not_equal(pc.utf8_trim_whitespace(pc.fill_null(text, "")), "")


class BadValues:
    """The rows of one batch whose values cannot be used: they are reported to the bad rows of the file."""

    def __init__(
        self, bad: BadRows, positions: Sequence[int], columns: Mapping[str, pa.Array | list[Any]]
    ) -> None:
        self._bad = bad
        self._positions = positions
        self._columns = columns
        self.rows: set[int] = set()

    def add(self, row: int, column: str, message: str, hint: str) -> None:
        """Report a row, once; a ``DataError`` if bad rows are an error."""
        if row in self.rows:
            return
        self.rows.add(row)
        values = {name: _plain(cells[row]) for name, cells in self._columns.items()}
        content = json.dumps(values, ensure_ascii=False, default=str)
        position = int(_plain(self._positions[row]))
        self._bad.add(RowProblem(position, message, hint, column, content))

    def converted(
        self, name: str, values: pa.Array | list[Any], convert: Callable[[Any], Any], kind: pa.DataType
    ) -> pa.Array:
        """Return the converted values of a column. Values that cannot be used are reported, and null.

        Each distinct value is converted once: a column of labels has few.
        """
        distinct, codes = _encoded(values)
        results = []
        problems: dict[int, tuple[str, str, str]] = {}  # column, message and hint of a value
        for code, value in enumerate(distinct):
            try:
                result = convert(value)
            except ValueProblemError as error:
                problems[code] = (repr(name), str(error), error.hint)
                result = None
            if isinstance(result, str):
                message = text_problem(result, name)
                if message is not None:
                    problems[code] = ("", message, "Correct the escape sequence.")
                    result = None
            results.append(result)

        if problems:
            is_bad = pc.is_in(codes, pa.array(list(problems), codes.type))
            for row in np.flatnonzero(is_bad.to_numpy(zero_copy_only=False)).tolist():
                column, message, hint = problems[codes[row].as_py()]
                self.add(row, column, message, hint)
        return pa.array(results, kind).take(codes)

    def without(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the other rows of the batch."""
        if not self.rows:
            return batch
        kept = np.ones(batch.num_rows, dtype=bool)
        kept[list(self.rows)] = False
        return batch.filter(pa.array(kept))


def _plain(value: Any) -> Any:
    if isinstance(value, pa.Scalar):
        return value.as_py()
    return value


def _encoded(values: pa.Array | list[Any]) -> tuple[list[Any], pa.Array]:
    """Return the distinct values, and for each row the number of its value."""
    if isinstance(values, pa.Array):
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode()
        return values.dictionary.to_pylist(), values.indices

    code_of: dict[Any, int] = {}
    distinct: list[Any] = []
    codes = []
    for value in values:
        hashable = value
        if isinstance(value, list | dict):
            hashable = repr(value)
        # With its type: 1, 1.0 and True are equal.
        code = code_of.setdefault((type(value), hashable), len(distinct))
        if code == len(distinct):
            distinct.append(value)
        codes.append(code)
    return distinct, pa.array(codes, pa.int64())


Convert = Callable[[Any], Any]
"""Returns a value as a label; a ``ValueProblemError`` if it is none."""


class _LabelColumn(ABC):
    """What the values of the label column of one file mean."""

    def __init__(self, place: str, declared: Sequence[str] | None, decimal: str) -> None:
        self._place = place
        self._declared = declared
        self._decimal = decimal

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
        self._columns = columns
        self._bad = bad
        label_column = _LABEL_COLUMNS[columns.kind.staged_type]
        self._labels = label_column(f"{bad.name}, column {columns.label!r}", declared, decimal)

    def convert(self, batch: ValueBatch) -> pa.RecordBatch:
        """Return a batch of ``LabelledColumns.schema``, without the rows that cannot be used."""
        columns = self._columns
        rows = len(batch.positions)

        # What the report about a bad row shows of it: its texts and its label.
        shown = {}
        for name in (*columns.texts, columns.label):
            if name in batch.columns:
                shown[name] = batch.columns[name]
        bad = BadValues(self._bad, batch.positions, shown)

        # in the order of the schema
        arrays = [self._text(bad, name, batch.columns[name]) for name in columns.texts]
        for name in columns.others:
            if name in batch.columns:
                arrays.append(self._other(bad, name, batch.columns[name]))
            else:
                arrays.append(pa.nulls(rows, pa.string()))
        if columns.label in batch.columns:
            arrays.append(self._label(bad, batch.columns[columns.label], batch.positions))
        else:
            arrays.append(pa.nulls(rows, columns.kind.staged_type))
        arrays.append(pa.array(batch.positions, pa.int64()))
        return bad.without(pa.record_batch(arrays, schema=columns.schema))

    def _text(self, bad: BadValues, name: str, values: pa.Array | list[Any]) -> pa.Array:
        """Return a column of texts; values of other types are reported, and null."""
        if isinstance(values, pa.Array):
            if not (_is_text(values.type) or pa.types.is_null(values.type)):
                raise DataError(
                    f"{self._bad.name}: column {name!r} holds {values.type}, not text.",
                    "Name another in data.text_columns.",
                )
            return values.cast(pa.string())

        # Nearly always, all values of JSON Lines are texts, or null.
        try:
            return pa.array(values, pa.string())
        except (pa.ArrowException, UnicodeEncodeError):
            pass
        # Otherwise, JSON has values of any type, and halves of characters.
        hint = "Put text in quotes, correct the escape sequence, or name another column."
        texts = []
        for row, value in enumerate(values):
            problem = None
            if value is not None:
                problem = text_problem(value, name)
            if problem is None:
                texts.append(value)
            else:
                bad.add(row, "", problem, hint)
                texts.append(None)
        return pa.array(texts, pa.string())

    def _other(self, bad: BadValues, name: str, values: pa.Array | list[Any]) -> pa.Array:
        """Return a further column, such as groups or keys, as text."""
        if isinstance(values, pa.Array):
            if pa.types.is_nested(values.type) or pa.types.is_binary(values.type):
                hint = f"Name a column of text, numbers or dates in {self._columns.others[name]}."
                raise DataError(
                    f"{self._bad.name}, column {name!r}: values of type {values.type} cannot be groups.", hint
                )
            if pa.types.is_temporal(values.type):
                values = values.cast(pa.string())
        return bad.converted(name, values, group_name, pa.string())

    def _label(self, bad: BadValues, values: pa.Array | list[Any], positions: Sequence[int]) -> pa.Array:
        """Return the labels: names of classes, or numbers."""
        if isinstance(values, pa.Array):
            convert = self._labels.of_type(values.type)
            if _is_text(values.type):
                values = values.cast(pa.string())
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

    Args:
        batches: Values, in which optional columns may be missing.
        columns: The columns to read.
        bad: Where rows that cannot be used are reported.
        declared: Class names by their ids, where labels are stored as ids.
        decimal: Character before the decimals of a number.

    Raises:
        DataError: A column cannot be used as text or label, or a row is bad and bad rows are an error; while
            reading.
    """
    return map(_Converter(columns, bad, declared, decimal).convert, batches)


def labelled_rows(table: InputTable, columns: LabelledColumns, bad: BadRows) -> Iterator[pa.RecordBatch]:
    """Yield the labelled rows of an open file in batches of ``LabelledColumns.schema``.

    Raises:
        DataError: A column is missing.
    """
    is_json = table.source.kind == "jsonl"
    if is_json:
        used = columns.options
    else:
        used = columns.check(table.names(), table.name, table.hint)

    batches = table.batches(used, bad, everywhere=columns.everywhere)
    declared = table.declared(columns.label)
    yield from labelled_batches(batches, columns, bad, declared, table.source.dialect.decimal)

    # Which keys the objects have is known only after the last one.
    if is_json and table.keys:
        columns.check(list(table.keys), table.name)
