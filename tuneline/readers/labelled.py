"""Labelled rows: batches of values become texts and labels. Rows whose values cannot be used are bad rows."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tuneline.params.data import LabelSetsParams
from tuneline.readers.label_values import (
    ValueProblemError,
    class_name,
    group_name,
    indicator,
    label_number,
    listed_names,
    separated_names,
)
from tuneline.readers.rows import STOP, BadRowPolicy, BadRows, RowProblem, check_columns, text_problem
from tuneline.readers.tables import FileTable, ValueBatch
from tuneline.runtime.errors import DataError, ParamsError
from tuneline.tasks import Classification, Task
from tuneline.tasks.columns import staged_type

UNNAMED_CLASSES = Classification(())
"""The task of classes that are not known yet."""
LABEL = "label"
POSITION = "position"
Convert = Callable[[Any], Any]
"""Returns a value as it is used; a ``ValueProblemError`` if it cannot be."""


@dataclass(frozen=True)
class LabelledColumns:
    """The columns of labelled rows.

    Attributes:
        texts: One or two names; none for late labels, which have ids instead of texts.
        label: Name of the label column; only what messages call the labels, if ``sets`` names their columns.
        task: The task, which says what labels are; its classes need not be known.
        others: Further columns, which are read as text.
        optional: Columns that the file need not have; ``label`` stands for all columns of the label.
        sets: How labels are written that are sets of names.
    """

    texts: tuple[str, ...]
    label: str
    task: Task = UNNAMED_CLASSES
    others: Collection[str] = ()
    optional: Collection[str] = ()
    policy: BadRowPolicy = STOP
    sets: LabelSetsParams | None = None

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns of the label: one, or a column for each label."""
        if self.sets is None or self.sets.columns is None:
            return (self.label,)
        return tuple(self.sets.columns)

    @property
    def names(self) -> list[str]:
        """All columns, each once."""
        return list(dict.fromkeys((*self.texts, *self.label_columns, *self.others)))

    def declared(self, table: FileTable) -> tuple[str, ...] | None:
        """Return the names of the labels, by their ids, if they have columns or the file stores them."""
        if self.sets is not None and self.sets.columns is not None:
            return tuple(self.sets.columns)
        return table.declared(self.label)

    def check(self, names: Sequence[str], where: str, hint: str | None = None) -> list[str]:
        """Return the columns that a file with these columns has and needs.

        Raises:
            DataError: A column that is not optional is missing, or one occurs twice.
        """
        optional = set(self.optional)
        if self.label in optional and not set(self.label_columns) & set(names):
            optional.update(self.label_columns)
        used = [name for name in self.names if name in names or name not in optional]
        check_columns(names, used, where, hint)
        return used

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches: ``text_0``, ..., ``other_0``, ..., ``label``, ``position``.

        ``label`` is a class name, a number, or a list of names. What is missing is null.
        """
        fields = [pa.field(f"text_{index}", pa.string()) for index in range(len(self.texts))]
        fields += [pa.field(f"other_{index}", pa.string()) for index in range(len(self.others))]
        fields.append(pa.field(LABEL, staged_type(self.task)))
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
        self._bad.add(RowProblem(int(_plain(self._positions[row])), message, hint, column, content))

    def converted(
        self, name: str, values: pa.Array | list[Any], convert: Convert, kind: pa.DataType
    ) -> pa.Array:
        """Return the converted values of a column. Values that cannot be used are reported, and null.

        Each distinct value is converted once: a column of labels has few.
        """
        distinct, codes = _encoded(values)
        results = []
        problems: dict[int, tuple[str, str]] = {}  # message and hint of a value
        for code, value in enumerate(distinct):
            result = None
            try:
                result = convert(value)
                if isinstance(result, str) and text_problem(result, name) is not None:
                    result = None
                    problems[code] = ("an unpaired surrogate", "Correct the escape sequence.")
            except ValueProblemError as error:
                problems[code] = (str(error), error.hint)
            results.append(result)

        if problems:
            is_bad = pc.is_in(codes, pa.array(list(problems), codes.type))
            for row in np.flatnonzero(is_bad.to_numpy(zero_copy_only=False)).tolist():
                self.add(row, repr(name), *problems[codes[row].as_py()])
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
        if not pa.types.is_nested(values.type):
            values = values.dictionary_encode()
            return values.dictionary.to_pylist(), values.indices
        values = values.to_pylist()

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


class _Converter:
    """Converts the batches of one file."""

    def __init__(
        self, columns: LabelledColumns, bad: BadRows, declared: Sequence[str] | None, decimal: str
    ) -> None:
        self._columns = columns
        self._bad = bad
        self._declared = declared
        self._decimal = decimal

    def convert(self, batch: ValueBatch) -> pa.RecordBatch:
        """Return a batch of ``LabelledColumns.schema``, without the rows that cannot be used."""
        columns = self._columns
        rows = len(batch.positions)
        # What the report about a bad row shows of it: its texts and its label.
        shown = {}
        for name in (*columns.texts, *columns.label_columns):
            if name in batch.columns:
                shown[name] = batch.columns[name]
        bad = BadValues(self._bad, batch.positions, shown)

        # in the order of the schema
        arrays = [self._text(bad, name, batch.columns[name]) for name in columns.texts]
        for name in columns.others:
            other = pa.nulls(rows, pa.string())
            if name in batch.columns:
                values = batch.columns[name]
                if isinstance(values, pa.Array) and pa.types.is_temporal(values.type):
                    values = values.cast(pa.string())
                other = bad.converted(name, values, group_name, pa.string())
            arrays.append(other)
        if columns.label_columns[0] in batch.columns:
            arrays.append(self._labels(bad, batch))
        else:
            arrays.append(pa.nulls(rows, staged_type(columns.task)))
        arrays.append(pa.array(batch.positions, pa.int64()))
        return bad.without(pa.record_batch(arrays, schema=columns.schema))

    def _text(self, bad: BadValues, name: str, values: pa.Array | list[Any]) -> pa.Array:
        """Return a column of texts; values of other types are reported, and null."""
        if isinstance(values, pa.Array):
            if pa.types.is_nested(values.type) or pa.types.is_binary(values.type):
                raise DataError(
                    f"{self._bad.name}: column {name!r} holds {values.type}, not text.",
                    "Name another in data.text_columns.",
                )
            if pa.types.is_null(values.type) or pa.types.is_large_string(values.type):
                values = values.cast(pa.string())
            if pa.types.is_string(values.type):
                return values
            values = values.to_pylist()

        # Nearly always, all values of JSON Lines are texts, or null.
        try:
            return pa.array(values, pa.string())
        except (pa.ArrowException, UnicodeEncodeError):
            pass
        # Otherwise, JSON has values of any type, and halves of characters.
        texts = []
        for row, value in enumerate(values):
            problem = None if value is None else text_problem(value, name)
            if problem is not None:
                bad.add(row, "", problem, "Put text in quotes, or name another column.")
                value = None  # noqa: PLW2901
            texts.append(value)
        return pa.array(texts, pa.string())

    def _labels(self, bad: BadValues, batch: ValueBatch) -> pa.Array:
        """Return the labels of a batch; what cannot be used is reported, and null."""
        columns = self._columns
        kind = staged_type(columns.task)
        sets = columns.sets
        if sets is not None and sets.columns is not None:
            return _indicated(sets.columns, bad, batch)

        name = columns.label
        values = batch.columns[name]
        convert: Convert
        if pa.types.is_floating(kind):
            convert = partial(label_number, decimal=self._decimal)
        elif pa.types.is_string(kind):
            convert = partial(class_name, declared=self._declared)
        elif sets is None:
            raise ParamsError(
                f"{self._bad.name}, column {name!r}: data.label_sets is null.",
                "Set it, for example to {layout: separated, separator: ';'}.",
            )
        elif sets.separator is None:
            convert = partial(listed_names, declared=self._declared)
        else:
            convert = partial(separated_names, separator=sets.separator)
        return bad.converted(name, values, convert, kind)


def _indicated(columns: Sequence[str], bad: BadValues, batch: ValueBatch) -> pa.Array:
    """Return the sets of columns of 0 and 1; null for a row in which any value is missing."""
    rows = len(batch.positions)
    missing = np.zeros(rows, dtype=bool)
    applies = np.zeros((rows, len(columns)), dtype=bool)
    names = sorted(columns)
    for position, name in enumerate(names):
        column = bad.converted(name, batch.columns[name], indicator, pa.bool_())
        missing |= column.is_null().to_numpy(zero_copy_only=False)
        applies[:, position] = pc.fill_null(column, False).to_numpy(zero_copy_only=False)

    # The names of the columns of a row are next to each other, in the order of the columns.
    applies &= ~missing[:, np.newaxis]
    _, positions = np.nonzero(applies)
    offsets = np.append(0, np.cumsum(applies.sum(axis=1))).astype(np.int32)
    values = pa.array([class_name(name) or name for name in names], pa.string()).take(pa.array(positions))
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(missing))


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
        decimal: Character before the decimals of numbers.

    Raises:
        DataError: A column cannot be used as text or label, or a row is bad and bad rows are an error; while
            reading.
    """
    return map(_Converter(columns, bad, declared, decimal).convert, batches)


def labelled_rows(table: FileTable, columns: LabelledColumns, bad: BadRows) -> Iterator[pa.RecordBatch]:
    """Yield the labelled rows of an open file in batches of ``LabelledColumns.schema``.

    Raises:
        DataError: A column is missing.
    """
    if columns.sets is not None and table.has_lists(columns.label):
        # Lists of Parquet need no other layout: flow ingest writes its batches so.
        columns = replace(columns, sets=LabelSetsParams(layout="lists"))
    used = columns.check(table.names(), table.name, table.hint)
    yield from labelled_batches(
        table.batches(used, bad), columns, bad, columns.declared(table), table.source.layout.decimal
    )
