"""The Parquet tables between stages: their schemas, how they are written, and the files of a split.

Label names are stored in the metadata as the datasets library stores features, so that
``datasets.load_dataset("parquet", ...)`` restores a ``ClassLabel``, and no separate file can get lost. Fields
are nullable, although no stage writes a null: the library drops the metadata of a column that is not.

A split is one Parquet file, or shards of a bounded number of rows, named as the hub names them:
``train.parquet`` is the shape of small data, ``train-00000-of-00012.parquet`` that of large data. Readers
take both.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.core.paths import split_file
from tuneline.core.runtime.errors import DataError, StageError

LABELS = "labels"
WINDOW_LENGTHS = "window_lengths"
"""Tokens of each window of a row; ``data/tokenized/`` has it if long texts are divided into windows."""
GROUP_COLUMN = "group"
"""Column of ``reports/download/groups/*.parquet``."""
CLUSTER = "cluster"
"""Column of ``reports/checks/clusters/*.parquet``, and of predictions: the cluster of each row."""
ROW_GROUP = 10_000
"""Rows per Parquet row group. The number is fixed so that the same rows always give the same bytes."""
ANSWER = b"tuneline_answer"
"""Key in the metadata of a tokenized split: how the windows of a row give one answer."""
FEATURES = b"huggingface"
"""Key in the metadata of a schema of what the datasets library stores."""


@dataclass(frozen=True)
class StoredLabels:
    """What a column of labels holds, as the schema of a table says it: to copy labels, nobody decodes them.

    Attributes:
        label_type: Arrow type of the column.
        label_feature: What the datasets library stores about the column.
    """

    label_type: pa.DataType
    label_feature: dict[str, Any]

    @classmethod
    def of(cls, schema: pa.Schema, column: str = LABELS) -> "StoredLabels":
        """Read it from the schema of a table.

        Raises:
            DataError: This project did not write the table.
        """
        try:
            feature = json.loads(schema.metadata[FEATURES])["info"]["features"][column]
        except (KeyError, TypeError, ValueError):
            raise DataError(
                "The table has no label names in its schema.", "Write it with `dvc repro download`."
            ) from None
        label_type = schema.field(column).type
        if pa.types.is_list(label_type):
            # Read from Parquet, the elements are called "element", and "item" everywhere else: a copy has the
            # bytes of labels that were written for the first time.
            label_type = pa.list_(label_type.value_type)
        return cls(label_type, feature)


def check_text_columns(split: "SplitReader", text_columns: Sequence[str]) -> None:
    """Check that a raw split has the text columns that params.yaml names by now."""
    present = split.schema.names[:-2]
    if present != list(text_columns):
        problem = (
            f"{split.name} has the text columns {present}, and data.text_columns is {list(text_columns)}."
        )
        raise DataError(problem, "Run `dvc repro`, or correct data.text_columns.")


def tokenized_split_schema(
    token_type_ids: bool, labels: StoredLabels, answer: str | None = None
) -> pa.Schema:
    """Return the schema of ``data/tokenized/*.parquet``: unpadded lists of model inputs, and ``labels``.

    With an ``answer``, rows are divided into windows: the lists have the windows of a row, one after the
    other, the column ``WINDOW_LENGTHS`` has their lengths, and the metadata how they give one answer.
    """
    fields = [
        pa.field("input_ids", pa.list_(pa.int32())),
        pa.field("attention_mask", pa.list_(pa.int8())),
    ]
    if token_type_ids:
        fields.append(pa.field("token_type_ids", pa.list_(pa.int8())))
    if answer is not None:
        fields.append(pa.field(WINDOW_LENGTHS, pa.list_(pa.int32())))
    fields.append(pa.field(LABELS, labels.label_type))
    schema = with_features(fields, labels)
    if answer is not None:
        schema = schema.with_metadata({**schema.metadata, ANSWER: answer.encode()})
    return schema


def input_columns(schema: pa.Schema) -> list[str]:
    """Return the columns of ``data/tokenized/*.parquet`` that the model reads."""
    return [name for name in schema.names if name not in {LABELS, WINDOW_LENGTHS}]


def failing_rows_schema(text_columns: Sequence[str], pairs: bool) -> pa.Schema:
    """Return the schema of ``reports/checks/rows/*.parquet``.

    Its columns are ``split``, ``row``, the text columns and ``reason``; for ``pairs`` also ``other_split``
    and ``other_row``: what a row repeats. A text column with the name of another column gets an underscore.
    """
    before = {"split": pa.string(), "row": pa.int64()}
    after = {"reason": pa.string()}
    other = {"other_split": pa.string(), "other_row": pa.int64()}
    taken = {*before, *after, *other}
    texts = [(f"{name}_" if name in taken else name, pa.string()) for name in text_columns]
    fields = [*before.items(), *texts, *after.items()]
    if pairs:
        fields += other.items()
    return pa.schema(fields)


def with_features(
    fields: list[pa.Field], labels: StoredLabels, label_columns: Sequence[str] = (LABELS,)
) -> pa.Schema:
    """Return a schema that says what each column is, as the datasets library stores it.

    Args:
        fields: The columns.
        labels: What the ``label_columns`` hold.
        label_columns: Names of the columns of labels or predictions.
    """
    features: dict[str, dict[str, Any]] = {}
    for field in fields:
        if field.name in label_columns:
            features[field.name] = labels.label_feature
        elif pa.types.is_list(field.type):
            features[field.name] = {"feature": _value(field.type.value_type), "_type": "List"}
        else:
            features[field.name] = _value(field.type)
    return pa.schema(fields, metadata={FEATURES: json.dumps({"info": {"features": features}}).encode()})


def _value(kind: pa.DataType) -> dict[str, str]:
    # Arrow says "float", the datasets library "float32"
    name = "float32" if pa.types.is_float32(kind) else str(kind)
    return {"dtype": name, "_type": "Value"}


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read one file, or a few of its columns.

    Arrow's module for data sets of many files is not used: its import takes half a second.
    """
    with pq.ParquetFile(path) as file:
        return file.read(columns=None if columns is None else list(columns))


def numpy_values(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of numbers without nulls, read-only.

    Arrow's ``to_numpy`` does the same, but first imports pandas: half a second.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return np.from_dlpack(column)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table with the project's row groups and compression."""
    write_batches(path, table.schema, table.to_batches(max_chunksize=ROW_GROUP))


def write_numbers(path: Path, column: str, numbers: NDArray[Any]) -> None:
    """Write one column of numbers, as many as there are rows."""
    write_table(pa.table({column: numbers}), path)


def read_numbers(path: Path, column: str, rows: int, made_by: str) -> NDArray[Any] | None:
    """Read a column that ``write_numbers`` wrote for a split of so many rows; ``None`` without the file.

    Raises:
        DataError: It has another number of rows. The message names the stage that it is ``made_by``.
    """
    if not path.exists():
        return None
    numbers = numpy_values(read_table(path, [column])[column])
    if len(numbers) != rows:
        raise DataError(
            f"{path} has {len(numbers):,} rows, and the split has {rows:,}.", f"Run `dvc repro {made_by}`."
        )
    return numbers


def write_batches(
    path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch]
) -> int:
    """Write batches to a Parquet file, one row group each, and return the number of rows.

    The bytes depend on the sizes of the batches: each must have ``ROW_GROUP`` rows, except the last
    (``rebatch``).
    """
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def rebatch(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, size: int = ROW_GROUP
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of exactly ``size`` rows (the last may be shorter).

    So outputs do not depend on the batches of the reader.
    """
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= size:
            table = pa.Table.from_batches(waiting, schema).combine_chunks()
            whole = rows - rows % size
            yield from table.slice(0, whole).to_batches(max_chunksize=size)
            waiting = table.slice(whole).to_batches()
            rows -= whole
    if rows:
        yield from pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()


_SHARD = re.compile(r"-(?P<number>\d{5,})-of-(?P<count>\d{5,})\.parquet")


def shard_file(folder: Path, split: str, number: int, count: int) -> Path:
    """Return the path of a file of a split: ``train.parquet`` if it is the only one, else a numbered one."""
    if count == 1:
        return split_file(folder, split)
    return folder / f"{split}-{number:05d}-of-{count:05d}.parquet"


def split_files(folder: Path, split: str) -> tuple[Path, ...]:
    """Return the files of a split in the order of their rows; none if the split does not exist.

    Raises:
        DataError: A file is missing, or the files are those of two versions of the split.
    """
    # Files by the number of files that they say the split has, then by their number: one split has one count.
    files: dict[int, dict[int, Path]] = {}
    single = split_file(folder, split)
    if single.exists():
        files[1] = {0: single}
    for path in folder.glob(f"{split}-*.parquet"):
        match = _SHARD.fullmatch(path.name.removeprefix(split))
        if match:
            files.setdefault(int(match["count"]), {})[int(match["number"])] = path
    if not files:
        return ()
    count, paths = next(iter(files.items()))
    if len(files) > 1 or len(paths) < count:
        raise DataError(
            f"{folder}: the files of the split {split} are not complete, or are of two versions.",
            "`dvc checkout --force` restores them; or run the stage that writes them: `dvc repro -f`.",
        )
    return tuple(paths[number] for number in range(count))


def is_split_file(name: str, split: str) -> bool:
    """Return True if a file with this name is the split, or a shard of it."""
    if name == split_file(Path(), split).name:
        return True
    return name.startswith(split) and _SHARD.fullmatch(name.removeprefix(split)) is not None


@dataclass(frozen=True)
class SplitReader:
    """The rows of a split, whatever the number of its files (``paths``, in the order of the rows).

    Opens one file at a time.
    """

    folder: Path
    split: str
    paths: tuple[Path, ...]

    @classmethod
    def find(cls, folder: Path, split: str) -> Self | None:
        """Find the files of a split; ``None`` if it does not exist."""
        paths = split_files(folder, split)
        return cls(folder, split, paths) if paths else None

    @classmethod
    def open(cls, folder: Path, split: str, made_by: str) -> Self:
        """Find the files of a split that the stage ``made_by`` writes; refuse a split that lacks any."""
        reader = cls.find(folder, split)
        if reader is None:
            raise StageError(
                f"{split_file(folder, split)} is missing.",
                f"The stage {made_by!r} writes it: run `dvc repro {made_by}`.",
            )
        return reader

    @property
    def name(self) -> str:
        """What messages call the split: its file, or its folder and name if it has several."""
        if len(self.paths) == 1:
            return str(self.paths[0])
        return f"{self.folder / self.split} ({len(self.paths)} files)"

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the first file, with the label names."""
        with _opened(self.paths[0]) as file:
            return file.schema_arrow

    def fields(self, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of some columns."""
        return pa.schema([self.schema.field(name) for name in columns], self.schema.metadata)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Number of the first row of each file, then the number of all rows; shape ``(files + 1,)``.

        A file with other columns or classes than the first is a ``DataError``.
        """
        sizes = [0]
        for path in self.paths:
            with _opened(path) as file:
                if not file.schema_arrow.equals(self.schema, check_metadata=True):
                    raise DataError(
                        f"{path} has other columns or classes than {self.paths[0].name}.",
                        "Write both anew: `dvc repro -f`.",
                    )
                sizes.append(file.metadata.num_rows)
        return np.cumsum(sizes)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.starts[-1])

    def batches(
        self, columns: Sequence[str] | None = None, at_most: int = ROW_GROUP
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in their order, in batches of at most ``at_most`` rows of one file."""
        names = None if columns is None else list(columns)
        for path in self.paths:
            with _opened(path) as file:
                for batch in file.iter_batches(batch_size=at_most, columns=names):
                    # The file has an order of columns of its own.
                    yield batch if names is None else batch.select(names)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read all rows, or some columns of them, into memory."""
        schema = self.schema if columns is None else self.fields(columns)
        return pa.Table.from_batches(self.batches(columns), schema)

    def take(self, rows: NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
        """Read chosen rows, one row group at a time.

        Args:
            rows: Row numbers, ascending; numbers beyond the last row are ignored.
            columns: Names of the columns.

        Raises:
            DataError: A file is damaged; the message names it.
        """
        names = list(columns)
        taken = []
        start = 0  # row number of the first row of the row group
        for path in self.paths:
            with _opened(path) as file:
                for group in range(file.num_row_groups):
                    stop = start + file.metadata.row_group(group).num_rows
                    low, high = np.searchsorted(rows, (start, stop))
                    if low < high:
                        inside = pa.array(rows[low:high] - start)
                        taken.append(file.read_row_group(group, columns=names).take(inside))
                    start = stop
        if not taken:
            return self.fields(names).empty_table()
        return pa.concat_tables(taken).select(names)

    def place(self, row: int) -> str:
        """Return file and row of the file for messages: ``data/raw/train.parquet, row 17``."""
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"{self.paths[number]}, row {row - int(self.starts[number])}"


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Yield an open file; if it cannot be read, a ``DataError`` names it."""
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(
            f"{path} cannot be read: {reason}",
            "It is damaged: `dvc checkout --force` restores it, `dvc repro -f` writes it anew.",
        ) from None
