"""Labelled rows: batches of values become texts and labels.

Rows whose values cannot be used are left out, or are an error.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tuneline.params.data import LabelSetsParams
from tuneline.readers.bad_values import BadValues
from tuneline.readers.joined_rows import join_rows
from tuneline.readers.label_columns import ClassColumn, LabelFormat, LabelReader, NumberColumn, is_text
from tuneline.readers.label_sets import LISTS, NAME_SETS, open_label_sets
from tuneline.readers.label_values import USUAL_NUMBERS, NumberFormat, group_name
from tuneline.readers.row_texts import text_problem
from tuneline.readers.rows import STOP, BadRowPolicy, BadRows, check_columns
from tuneline.readers.tables import FileTable, ValueBatch
from tuneline.runtime.errors import DataError
from tuneline.tasks import Classification, Task
from tuneline.tasks.columns import staged_type

UNNAMED_CLASSES = Classification(())
"""The task of classes that are not known yet."""
LABEL = "label"
POSITION = "position"


@dataclass(frozen=True)
class LabelledColumns:
    """The columns of labelled rows.

    Attributes:
        texts: One or two names; none for late labels, which have ids instead of texts.
        label: Name of the label column; only what messages call the labels, if ``sets`` names their columns.
        task: The task, which says what labels are; its classes need not be known.
        others: Further columns, which are read as text: for each, the parameter that names it.
        optional: Columns that the file need not have; ``label`` stands for all columns of the label.
        sparse: A key that a JSON object lacks is a missing value, as long as any object has it; otherwise
            that row is bad.
        sets: How labels are written that are sets of names.
        text_option, label_option: What names the columns, for messages.
    """

    texts: tuple[str, ...]
    label: str
    task: Task = UNNAMED_CLASSES
    others: Mapping[str, str] = field(default_factory=dict)
    optional: Collection[str] = ()
    sparse: bool = False
    policy: BadRowPolicy = STOP
    sets: LabelSetsParams | None = None
    text_option: str = "data.text_columns"
    label_option: str = "data.label_column"

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """The names of the labels, where each has a column."""
        if self.sets is None or self.sets.names is None:
            return None
        return tuple(self.sets.names)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns of the label: one, or several."""
        if self.sets is None or self.sets.columns is None:
            return (self.label,)
        return tuple(self.sets.columns)

    @property
    def options(self) -> dict[str, str]:
        """The parameter that names each column."""
        options = dict.fromkeys(self.texts, self.text_option)
        for name in self.label_columns:
            options[name] = "data.label_sets" if len(self.label_columns) > 1 else self.label_option
        for name, option in self.others.items():
            options.setdefault(name, option)
        return options

    @property
    def everywhere(self) -> list[str]:
        """Keys without which a JSON object is a bad row."""
        if self.sparse:
            return []
        required = list(self.texts)
        if self.label not in self.optional:
            required += self.label_columns
        return [name for name in required if name not in self.optional]

    def declared(self, table: FileTable) -> tuple[str, ...] | None:
        """Return the names of the labels, by their ids, if they have columns or the file stores them."""
        return self.label_names or table.declared(self.label)

    def check(self, names: Sequence[str], where: str, hint: str | None = None) -> dict[str, str]:
        """Return the columns that a file has and needs, with the parameters that name them.

        Args:
            names: All columns of the file.
            where: The file, for messages.
            hint: What to do about a missing column.

        Raises:
            DataError: A column that is not optional is missing, or one occurs twice.
        """
        optional = set(self.optional)
        if self.label in optional and not set(self.label_columns) & set(names):
            optional.update(self.label_columns)
        used = {}
        for name, option in self.options.items():
            if name in names or name not in optional:
                used[name] = option
        check_columns(names, used, where, hint)
        return used

    @property
    def identity(self) -> list[str]:
        """The columns of the batches that are the same in all rows of an example: its texts.

        Late labels have ids instead of texts.
        """
        if self.texts:
            return [f"text_{index}" for index in range(len(self.texts))]
        return [f"other_{index}" for index in range(len(self.others))]

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


_LABEL_READERS: Mapping[pa.DataType, Callable[[LabelFormat], LabelReader]] = {
    ClassColumn.label_type: ClassColumn,
    NumberColumn.label_type: NumberColumn,
    NAME_SETS: open_label_sets,
}
"""What values mean, by the type that a task has them in: ``staged_type``."""


class _Converter:
    """Converts the batches of one file."""

    def __init__(
        self, columns: LabelledColumns, bad: BadRows, declared: Sequence[str] | None, numbers: NumberFormat
    ) -> None:
        self._columns = columns
        self._bad = bad
        written = LabelFormat(bad.name, columns.label, declared, numbers, columns.sets)
        self._labels = _LABEL_READERS[staged_type(columns.task)](written)

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
            if name in batch.columns:
                arrays.append(self._other(bad, name, batch.columns[name]))
            else:
                arrays.append(pa.nulls(rows, pa.string()))
        if columns.label_columns[0] in batch.columns:
            arrays.append(self._labels.read(batch, bad))
        else:
            arrays.append(pa.nulls(rows, staged_type(columns.task)))
        arrays.append(pa.array(batch.positions, pa.int64()))
        return bad.without(pa.record_batch(arrays, schema=columns.schema))

    def _text(self, bad: BadValues, name: str, values: pa.Array | list[Any]) -> pa.Array:
        """Return a column of texts; values of other types are reported, and null."""
        if isinstance(values, pa.Array):
            if not (is_text(values.type) or pa.types.is_null(values.type)):
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


def labelled_batches(
    batches: Iterable[ValueBatch],
    columns: LabelledColumns,
    bad: BadRows,
    declared: Sequence[str] | None = None,
    numbers: NumberFormat = USUAL_NUMBERS,
) -> Iterator[pa.RecordBatch]:
    """Convert batches of values to texts and labels, of ``LabelledColumns.schema``.

    Args:
        batches: Values, in which optional columns may be missing.
        columns: The columns to read.
        bad: Where rows that cannot be used are reported.
        declared: Class names by their ids, where labels are stored as ids.
        numbers: How numbers are written.

    Raises:
        DataError: A column cannot be used as text or label, or a row is bad and bad rows are an error; while
            reading.
    """
    rows = map(_Converter(columns, bad, declared, numbers).convert, batches)
    if columns.sets is not None and columns.sets.layout == "rows":
        return join_rows(rows, columns.identity, LABEL)
    return rows


def labelled_rows(table: FileTable, columns: LabelledColumns, bad: BadRows) -> Iterator[pa.RecordBatch]:
    """Yield the labelled rows of an open file in batches of ``LabelledColumns.schema``.

    Raises:
        DataError: A column is missing.
    """
    if columns.sets is not None and table.has_lists(columns.label):
        # Lists of Parquet need no other layout: flow ingest writes its batches so.
        columns = replace(columns, sets=LISTS)
    used = columns.options
    if table.has_schema:
        used = columns.check(table.names(), table.name, table.hint)

    lists = columns.label_columns if columns.sets is not None else ()
    batches = table.batches(used, bad, everywhere=columns.everywhere, lists=lists)
    declared = columns.declared(table)
    yield from labelled_batches(batches, columns, bad, declared, table.source.layout.numbers)

    # Without a schema, the columns are known only after the last row.
    if table.keys:
        columns.check(list(table.keys), table.name)
