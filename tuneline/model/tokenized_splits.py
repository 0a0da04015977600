"""The splits of ``data/tokenized/``, mapped into memory. Does not import torch."""

import json
import math
import mmap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import IO, Any, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.core.hashes import content_key, file_hash
from tuneline.core.tables import (
    ANSWER,
    LABELS,
    WINDOW_LENGTHS,
    SplitReader,
    input_columns,
    numpy_values,
)
from tuneline.model.batches import RowWindows, TokenizedRows, joined_ranges, row_offsets
from tuneline.model.long_text import Answer
from tuneline.runtime.atomic_files import replace_file
from tuneline.runtime.locks import locked
from tuneline.runtime.terminal import progress
from tuneline.tasks import Task
from tuneline.tasks.columns import array_of
from tuneline.tasks.schemas import read_task
from tuneline.tasks.task import Labels

VERSION = 1
"""Version of the layout: a map of another version is made anew."""
_IDS = "input_ids"
_OFFSETS = "offsets"
_FIRST_WINDOWS = "first_windows"
_WINDOW_OFFSETS = "window_offsets"
_ALIGNMENT = 64
"""Alignment of the arrays in the file, in bytes."""
_LENGTH_BYTES = 8
"""Bytes of the length of the description, at the end of the file."""
_ANY = np.iinfo(np.int32)
"""Range of a column whose file does not state it."""


@dataclass(frozen=True)
class TokenMap:
    """The arrays of a split, read-only.

    Attributes:
        values: By model input, the concatenated values of all rows, in the smallest type that holds them. If
            they are all the same, as in ``attention_mask``, they take no memory.
        offsets: Row ``i`` is ``values[name][offsets[i] : offsets[i + 1]]``; int64 of shape ``(rows + 1,)``.
        labels: Labels of shape ``(rows, *Task.label_shape)``, such as class ids (int64) or regression targets
            (float32).
        longest: Tokens of the longest input of the model: of a row, or of a window.
        highest: Highest token id.
        windows: Windows of the rows, if they are divided into windows.
    """

    values: Mapping[str, NDArray[np.integer]]
    offsets: NDArray[np.int64]
    labels: NDArray[Any]
    longest: int
    highest: int
    windows: RowWindows | None = None

    @classmethod
    def open(cls, rows: SplitReader) -> Self:
        """Map a split. If its map is missing or outdated, one process makes it while the others wait."""
        # Only the content counts: a split is mapped once, by whatever path it is opened.
        key = content_key(VERSION, [file_hash(path) for path in rows.paths])
        path = rows.folder.with_name(f".{rows.folder.name}.mapped") / rows.split

        # the map, made if it is not there. Another process may replace it between the two calls of
        # ``_read_map``, so it is read until it has this key.
        token_map = _read_map(path, key)
        while token_map is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with locked(path.with_name(f"{path.name}.lock"), required=False):
                if _read_map(path, key) is None:  # no other process has made it meanwhile
                    _write(path, key, rows)
            token_map = _read_map(path, key)
        description, mapped = token_map

        # its arrays, in the order of the columns
        arrays = {}
        for name, place in description["arrays"].items():
            arrays[name] = _Array(**place).view(mapped)
        offsets = arrays.pop(_OFFSETS)
        labels = arrays.pop(LABELS)
        windows = None
        if _FIRST_WINDOWS in arrays:
            answer = cast("Answer", rows.schema.metadata[ANSWER].decode())
            windows = RowWindows(arrays.pop(_FIRST_WINDOWS), arrays.pop(_WINDOW_OFFSETS), answer)
        for name, value in description["same"].items():
            arrays[name] = np.broadcast_to(np.int8(value), offsets[-1])
        values = {name: arrays[name] for name in input_columns(rows.schema)}
        return cls(values, offsets, labels, description["longest"], description["highest"], windows)


@dataclass
class _Array:
    """Place of an array in the file.

    Attributes:
        dtype: Type in NumPy's notation.
        start: Position of the first number, in bytes.
        size: Count of elements.
        element: Shape of an element: a number, unless a row has several.
    """

    dtype: str
    start: int
    size: int = 0
    element: Sequence[int] = ()

    def append(self, values: NDArray[Any], file: IO[bytes]) -> None:
        file.seek(self.start + self.size * math.prod(self.element) * np.dtype(self.dtype).itemsize)
        file.write(values.astype(self.dtype).tobytes())
        self.size += len(values)

    def view(self, mapped: mmap.mmap) -> NDArray[Any]:
        return np.ndarray((self.size, *self.element), self.dtype, mapped, self.start)


def _read_map(path: Path, key: str) -> tuple[dict[str, Any], mmap.mmap] | None:
    """Return the description and the content of a map.

    ``None`` if the map is missing, damaged, or of other Parquet files.
    """
    with suppress(FileNotFoundError, ValueError), path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

        # The description is behind the arrays, and its length in the last bytes.
        end = len(mapped) - _LENGTH_BYTES
        length = int.from_bytes(mapped[end:], "little")
        description = json.loads(mapped[end - length : end])
        if description["key"] == key:
            return description, mapped
    return None


def _write(path: Path, key: str, rows: SplitReader) -> None:
    """Make the map of a split, with one batch of rows in memory."""
    arrays, constants, end = _lay_out(rows)
    inputs = [name for name in input_columns(rows.schema) if name in arrays]
    columns = [*inputs, LABELS]
    if _FIRST_WINDOWS in arrays:
        columns.append(WINDOW_LENGTHS)
    task = read_task(rows.schema)
    longest = 0
    highest = 0
    with (
        progress(f"mapping {rows.name}", rows.rows) as step,
        replace_file(path) as partial,
        partial.open("wb") as file,
    ):
        arrays[_OFFSETS].append(np.zeros(1), file)
        if _FIRST_WINDOWS in arrays:
            arrays[_FIRST_WINDOWS].append(np.zeros(1), file)
            arrays[_WINDOW_OFFSETS].append(np.zeros(1), file)
        for batch in rows.batches(columns):
            lengths = np.diff(numpy_values(batch[_IDS].offsets))
            ids = numpy_values(batch[_IDS].flatten())
            highest = max(highest, int(ids.max(initial=0)))
            # before the ids, whose size counts the tokens of the batches so far
            if _FIRST_WINDOWS in arrays:
                longest = max(longest, _append_windows(arrays, batch[WINDOW_LENGTHS], file))
            else:
                longest = max(longest, int(lengths.max()))
            arrays[_OFFSETS].append(np.cumsum(lengths, dtype=np.int64) + arrays[_IDS].size, file)
            arrays[LABELS].append(array_of(task, batch[LABELS]), file)
            for name in inputs:
                arrays[name].append(numpy_values(batch[name].flatten()), file)
            step.advance(len(batch))

        # The description comes last: until then, the sizes of the arrays are not known.
        description = {
            "key": key,
            "longest": longest,
            "highest": highest,
            "same": constants,
            "arrays": {name: asdict(array) for name, array in arrays.items()},
        }
        encoded = json.dumps(description).encode()
        file.seek(end)
        file.write(encoded + len(encoded).to_bytes(_LENGTH_BYTES, "little"))


def _append_windows(arrays: Mapping[str, _Array], column: pa.ListArray, file: IO[bytes]) -> int:
    """Append the windows of a batch of rows, before its ids; return the tokens of the longest one."""
    counts = np.diff(numpy_values(column.offsets))
    lengths = numpy_values(column.flatten())
    window_count = arrays[_WINDOW_OFFSETS].size - 1  # of the batches so far: an offset more than windows
    arrays[_FIRST_WINDOWS].append(np.cumsum(counts, dtype=np.int64) + window_count, file)
    arrays[_WINDOW_OFFSETS].append(np.cumsum(lengths, dtype=np.int64) + arrays[_IDS].size, file)
    return int(lengths.max(initial=0))


def _lay_out(rows: SplitReader) -> tuple[dict[str, _Array], dict[str, int], int]:
    """Return the place of each array, the inputs that are one value, and the position behind the arrays."""
    row_count = rows.rows  # the first look at each file: a damaged one is named
    ranges, sizes = _statistics(rows)

    # type and size of each array
    task = read_task(rows.schema)
    layout: list[tuple[str, np.dtype[Any], int, tuple[int, ...]]] = [
        (_OFFSETS, np.dtype(np.int64), row_count + 1, ()),
        (LABELS, task.label_dtype, row_count, task.label_shape),
    ]
    if WINDOW_LENGTHS in rows.schema.names:
        layout.append((_FIRST_WINDOWS, np.dtype(np.int64), row_count + 1, ()))
        layout.append((_WINDOW_OFFSETS, np.dtype(np.int64), sizes[WINDOW_LENGTHS] + 1, ()))
    constants = {}
    for name, (low, high) in ranges.items():
        if low == high and name != _IDS:
            constants[name] = low
        else:
            smallest_type = np.promote_types(np.min_scalar_type(low), np.min_scalar_type(high))
            layout.append((name, smallest_type, sizes[_IDS], ()))

    # their places, aligned
    arrays = {}
    start = 0
    for name, dtype, size, element in layout:
        arrays[name] = _Array(dtype.str, start, element=element)
        bytes_of_array = size * math.prod(element) * dtype.itemsize
        start += -(-bytes_of_array // _ALIGNMENT) * _ALIGNMENT
    return arrays, constants, start


def _statistics(rows: SplitReader) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    """Return the range of each model input, and an upper limit of the numbers of tokens and of windows.

    All are from the metadata of the Parquet files; no column is read.
    """
    extremes: dict[str, list[int]] = {name: [] for name in input_columns(rows.schema)}
    sizes = {_IDS: 0, WINDOW_LENGTHS: 0}
    for path in rows.paths:
        metadata = pq.read_metadata(path)
        for group, index in product(range(metadata.num_row_groups), range(metadata.num_columns)):
            column = metadata.row_group(group).column(index)
            name = column.path_in_schema.partition(".")[0]
            if name in sizes:
                sizes[name] += column.num_values
            if name not in extremes:
                continue
            if column.statistics is not None and column.statistics.has_min_max:
                extremes[name] += [column.statistics.min, column.statistics.max]
            else:
                extremes[name] += [_ANY.min, _ANY.max]

    # without a row group, all values are 0
    ranges = {}
    for name, values in extremes.items():
        ranges[name] = (min(values, default=0), max(values, default=0))
    return ranges, sizes


@dataclass(frozen=True)
class TokenizedSplit(TokenizedRows):
    """Tokenized rows with labels of shape ``(rows, *Task.label_shape)``."""

    labels: Labels
    task: Task

    @staticmethod
    def read(rows: SplitReader) -> "MappedSplit":
        """Map a split of ``data/tokenized/`` into memory, from all its files."""
        tokens = TokenMap.open(rows)
        task = read_task(rows.schema)
        return MappedSplit(tokens.values, tokens.offsets, tokens.labels, task, tokens, windows=tokens.windows)

    def take(self, rows: NDArray[np.int64]) -> "TokenizedSplit":
        """Return a split of the rows with these numbers, in this order and in memory."""
        lengths = self.lengths_of(rows)
        source = joined_ranges(self.offsets[:-1][rows], lengths)
        values = {name: column[source] for name, column in self.values.items()}
        windows = None if self.windows is None else self.windows.take(rows)
        return TokenizedSplit(values, row_offsets(lengths), self.labels[rows], self.task, windows=windows)

    def sample(self, most: int, seed: int) -> "TokenizedSplit":
        """Return at most so many rows, drawn with the seed, in the order of the file."""
        if len(self) <= most:
            return self
        rows = np.random.default_rng(seed).choice(len(self), most, replace=False)
        return self.take(np.sort(rows))


@dataclass(frozen=True)
class MappedSplit(TokenizedSplit):
    """A split of ``data/tokenized/``, whose arrays are mapped into memory and read-only."""

    tokens: TokenMap
