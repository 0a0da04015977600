"""Labelled rows: batches of values become texts and labels. Rows whose values cannot be used are bad rows."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tuneline.core.params.data import DataParams, LabelSetsParams
from tuneline.core.runtime.errors import DataError, ParamsError
from tuneline.model.tasks import Classification, Task, task_with_names
from tuneline.model.tasks.columns import staged_type
from tuneline.rows.reading.label_values import (
    ValueProblemError,
    class_name,
    group_name,
    indicator,
    label_number,
    listed_names,
    separated_names,
)
from tuneline.rows.reading.rows import STOP, BadRowPolicy, BadRows, RowProblem, check_columns, text_problem
from tuneline.rows.reading.tables import FileTable, ValueBatch

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
        texts: One or two names.
        label: Name of the label column; only what messages call the labels, if ``sets`` names their columns.
        task: The task, which says what labels are. Its classes need not be known; those that are known are
            read as they are written.
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

    @classmethod
    def of(cls, data: DataParams, others: Collection[str] = (), optional: Collection[str] = ()) -> Self:
        """Return the columns that section ``data`` names, and others."""
        return cls(
            tuple(data.text_columns),
            data.label_column,
            task_with_names(data.label_names, data.task),
            others,
            optional,
            BadRowPolicy(data.max_bad_share),
            data.label_sets,
        )

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
        fields = []
        for index in range(len(self.texts)):
            fields.append(pa.field(f"text_{index}", pa.string()))
        for index in range(len(self.others)):
            fields.append(pa.field(f"other_{index}", pa.string()))
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

    def __init__(self, bad: BadRows, positions: Sequence[int]) -> None:
        self._bad = bad
        self._positions = positions
        self.rows: set[int] = set()

    def add(self, row: int, column: str, message: str, hint: str) -> None:
        """Report a row, once; a ``DataError`` if bad rows are an error."""
        if row in self.rows:
            return
        self.rows.add(row)
        self._bad.add(RowProblem(self._positions[row], message, hint, column))

    def converted(
        self, name: str, values: pa.Array | list[Any], convert: Convert, kind: pa.DataType
    ) -> pa.Array:
        """Return the converted values of a column. Values that cannot be used are reported, and null.

        Of a column of an Arrow type, each distinct value is converted once.
        """
        if isinstance(values, pa.Array) and not pa.types.is_nested(values.type):
            values = values.dictionary_encode()
            distinct = values.dictionary.to_pylist()
            codes = values.indices
        else:
            distinct = values if isinstance(values, list) else values.to_pylist()
            codes = pa.array(range(len(values)), pa.int64())
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

        for row, code in enumerate(codes.to_pylist() if problems else ()):
            if code in problems:
                self.add(row, repr(name), *problems[code])
        return pa.array(results, kind).take(codes)

    def without(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the other rows of the batch."""
        if not self.rows:
            return batch
        kept = np.ones(batch.num_rows, dtype=bool)
        kept[list(self.rows)] = False
        return batch.filter(pa.array(kept))


def _texts(bad: BadValues, file: str, name: str, values: pa.Array | list[Any]) -> pa.Array:
    """Return a column of texts; values of other types are reported, and null."""
    if isinstance(values, pa.Array):
        if pa.types.is_nested(values.type) or pa.types.is_binary(values.type):
            raise DataError(
                f"{file}: column {name!r} holds {values.type}, not text.",
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


def _other(bad: BadValues, name: str, values: pa.Array | list[Any]) -> pa.Array:
    """Return a further column as text, whatever its type."""
    if isinstance(values, pa.Array) and pa.types.is_temporal(values.type):
        values = values.cast(pa.string())
    return bad.converted(name, values, group_name, pa.string())


def _label_converter(columns: LabelledColumns, file: str, declared: Sequence[str] | None) -> Convert:
    """Return what converts a label of one column."""
    kind = staged_type(columns.task)
    known = frozenset(columns.task.class_names)
    if pa.types.is_floating(kind):
        return label_number
    if pa.types.is_string(kind):
        return partial(class_name, declared=declared, known=known)
    if columns.sets is None:
        raise ParamsError(
            f"{file}, column {columns.label!r}: data.label_sets is null.",
            "Set it, for example to {layout: separated, separator: ';'}.",
        )
    if columns.sets.separator is None:
        return partial(listed_names, declared=declared, known=known)
    return partial(separated_names, separator=columns.sets.separator, known=known)


def _indicated(columns: Sequence[str], bad: BadValues, batch: ValueBatch) -> pa.Array:
    """Return the sets of columns of 0 and 1; null for a row in which any value is missing."""
    names = sorted(columns)
    cells = []
    for name in names:
        cells.append(bad.converted(name, batch.columns[name], indicator, pa.bool_()).to_pylist())
    sets = []
    for row in zip(*cells, strict=True):
        applying = None
        if None not in row:
            applying = [label for label, applies in zip(names, row, strict=True) if applies]
        sets.append(applying)
    return pa.array(sets, pa.list_(pa.string()))


def labelled_batches(
    batches: Iterable[ValueBatch],
    columns: LabelledColumns,
    bad: BadRows,
    declared: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Convert batches of values to texts and labels, of ``LabelledColumns.schema``.

    Args:
        batches: Values, in which optional columns may be missing.
        columns: The columns to read.
        bad: Where rows that cannot be used are reported.
        declared: Class names by their ids, where labels are stored as ids.

    Raises:
        DataError: A column cannot be used as text or label, or a row is bad and bad rows are an error; while
            reading.
    """
    convert = None
    if columns.sets is None or columns.sets.columns is None:
        convert = _label_converter(columns, bad.name, declared)
    kind = staged_type(columns.task)
    for batch in batches:
        values = BadValues(bad, batch.positions)

        # in the order of the schema
        arrays = [_texts(values, bad.name, name, batch.columns[name]) for name in columns.texts]
        for name in columns.others:
            if name in batch.columns:
                arrays.append(_other(values, name, batch.columns[name]))
            else:
                arrays.append(pa.nulls(batch.rows, pa.string()))
        if columns.label_columns[0] not in batch.columns:
            arrays.append(pa.nulls(batch.rows, kind))
        elif convert is None:
            arrays.append(_indicated(columns.label_columns, values, batch))
        else:
            arrays.append(values.converted(columns.label, batch.columns[columns.label], convert, kind))
        arrays.append(pa.array(batch.positions, pa.int64()))
        yield values.without(pa.record_batch(arrays, schema=columns.schema))


def labelled_rows(table: FileTable, columns: LabelledColumns, bad: BadRows) -> Iterator[pa.RecordBatch]:
    """Yield the labelled rows of an open file in batches of ``LabelledColumns.schema``.

    Raises:
        DataError: A column is missing.
    """
    if columns.sets is not None and table.has_lists(columns.label):
        # Lists of Parquet need no other layout: flow ingest writes its batches so.
        columns = replace(columns, sets=LabelSetsParams(layout="lists"))
    used = columns.check(table.names(), table.name, table.hint)
    yield from labelled_batches(table.batches(used, bad), columns, bad, columns.declared(table))
