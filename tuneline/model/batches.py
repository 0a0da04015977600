"""Tokenized rows and padded batches of them, for torch and ONNX Runtime. Does not import torch."""

import hashlib
import json
import mmap
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.core.atomic_files import replace_file
from tuneline.core.hashes import file_hash
from tuneline.core.locks import locked
from tuneline.core.tables import LABELS, SplitReader, numpy_values
from tuneline.core.terminal import progress
from tuneline.tasks import Task, read_task

VERSION = 1
"""Of the layout: a map of another version is made anew."""
_IDS, _OFFSETS = "input_ids", "offsets"
_ALIGNMENT = 64
_LENGTH_BYTES = 8
_ANY = np.iinfo(np.int32)


@dataclass(frozen=True)
class TokenMap:
    """The arrays of a split, read-only.

    Attributes:
        values: By model input, the concatenated values of all rows, in the smallest type that holds them. If
            they are all the same, as those of ``attention_mask``, they take no memory.
        offsets: Row ``i`` is ``values[name][offsets[i] : offsets[i + 1]]``; int64 of shape ``(rows + 1,)``.
        labels: Class ids (int64) or regression targets (float32) of shape ``(rows,)``.
    """

    values: Mapping[str, NDArray[np.integer]]
    offsets: NDArray[np.int64]
    labels: NDArray[Any]
    longest: int
    highest: int

    @classmethod
    def open(cls, rows: SplitReader) -> Self:
        """Map a split. If its map is missing or outdated, one process makes it while the others wait."""
        key = hashlib.sha256(json.dumps([VERSION, *map(file_hash, rows.paths)]).encode()).hexdigest()
        path = rows.folder.with_name(f".{rows.folder.name}.mapped") / rows.split
        found = _find(path, key)
        while found is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with locked(path.with_name(f"{path.name}.lock"), required=False):
                if _find(path, key) is None:  # no other process has made it meanwhile
                    _write(path, key, rows)
            found = _find(path, key)
        description, mapped = found
        arrays = {name: _Array(**array).view(mapped) for name, array in description["arrays"].items()}
        offsets, labels = arrays.pop(_OFFSETS), arrays.pop(LABELS)
        arrays |= {
            name: np.broadcast_to(np.int8(value), offsets[-1]) for name, value in description["same"].items()
        }
        values = {name: arrays[name] for name in rows.schema.names if name != LABELS}
        return cls(values, offsets, labels, description["longest"], description["highest"])


@dataclass
class _Array:
    """Place of an array in the file: type in NumPy's notation, position of the first number in bytes, and how many there are."""

    dtype: str
    start: int
    size: int = 0

    def append(self, values: NDArray[Any], file: IO[bytes]) -> None:
        file.seek(self.start + self.size * np.dtype(self.dtype).itemsize)
        file.write(values.astype(self.dtype).tobytes())
        self.size += len(values)

    def view(self, mapped: mmap.mmap) -> NDArray[Any]:
        return np.ndarray((self.size,), self.dtype, mapped, self.start)


def _find(path: Path, key: str) -> tuple[dict[str, Any], mmap.mmap] | None:
    """Return the description and the content of a map, unless it is missing, damaged, or of other Parquet files."""
    with suppress(FileNotFoundError, ValueError), path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        end = len(mapped) - _LENGTH_BYTES
        description = json.loads(mapped[end - int.from_bytes(mapped[end:], "little") : end])
        return (description, mapped) if description["key"] == key else None
    return None


def _write(path: Path, key: str, rows: SplitReader) -> None:
    """Make the map of a split, with one batch of rows in memory."""
    arrays, same, end = _lay_out(rows)
    inputs = [name for name in arrays if name not in {_OFFSETS, LABELS}]
    longest = highest = 0
    with (
        progress(f"mapping {rows.name}", rows.rows) as step,
        replace_file(path) as partial,
        partial.open("wb") as file,
    ):
        arrays[_OFFSETS].append(np.zeros(1), file)
        for batch in rows.batches([*inputs, LABELS]):
            lengths, ids = np.diff(numpy_values(batch[_IDS].offsets)), numpy_values(batch[_IDS].flatten())
            longest, highest = max(longest, int(lengths.max())), max(highest, int(ids.max(initial=0)))
            arrays[_OFFSETS].append(np.cumsum(lengths, dtype=np.int64) + arrays[_IDS].size, file)
            arrays[LABELS].append(numpy_values(batch[LABELS]), file)
            for name in inputs:
                arrays[name].append(numpy_values(batch[name].flatten()), file)
            step.advance(len(batch))
        places = {name: asdict(array) for name, array in arrays.items()}
        description = json.dumps(
            {"key": key, "longest": longest, "highest": highest, "same": same, "arrays": places}
        ).encode()
        file.seek(end)
        file.write(description + len(description).to_bytes(_LENGTH_BYTES, "little"))


def _lay_out(rows: SplitReader) -> tuple[dict[str, _Array], dict[str, int], int]:
    """Return the place of each array, the inputs that are one value, and the position behind the arrays."""
    count = rows.rows  # the first look at each file: a damaged one is named
    ranges, most = _statistics(rows)
    same = {name: low for name, (low, high) in ranges.items() if low == high and name != _IDS}
    label = np.dtype(read_task(rows.schema).label_type.to_pandas_dtype())
    stored = (
        (name, np.promote_types(*map(np.min_scalar_type, ends)), most)
        for name, ends in ranges.items()
        if name not in same
    )
    arrays, start = {}, 0
    for name, dtype, size in ((_OFFSETS, np.dtype(np.int64), count + 1), (LABELS, label, count), *stored):
        arrays[name] = _Array(dtype.str, start)
        start += -(-size * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
    return arrays, same, start


def _statistics(rows: SplitReader) -> tuple[dict[str, tuple[int, int]], int]:
    """Return the range of each model input, and an upper limit of the number of tokens, from the metadata of the Parquet files."""
    ends: dict[str, list[int]] = {name: [] for name in rows.schema.names if name != LABELS}
    most = 0
    for path in rows.paths:
        metadata = pq.read_metadata(path)
        for group, index in product(range(metadata.num_row_groups), range(metadata.num_columns)):
            column = metadata.row_group(group).column(index)
            name = column.path_in_schema.partition(".")[0]
            if name in ends:
                known = column.statistics is not None and column.statistics.has_min_max
                ends[name] += (
                    [column.statistics.min, column.statistics.max] if known else [_ANY.min, _ANY.max]
                )
                most += column.num_values * (name == _IDS)
    return {name: (min(found, default=0), max(found, default=0)) for name, found in ends.items()}, most


Batch = dict[str, NDArray[np.int64]]


@dataclass(frozen=True)
class TokenizedRows:
    """Tokenized rows as ragged arrays, without a Python object per row: ``values`` and ``offsets`` as in ``TokenMap``."""

    values: Mapping[str, NDArray[np.integer]]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row, special tokens included; int64 of shape ``(rows,)``, computed anew at each access."""
        return np.diff(self.offsets)

    def lengths_of(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the tokens of some rows, given their numbers."""
        lengths: NDArray[np.int64] = self.offsets[1:][rows] - self.offsets[:-1][rows]
        return lengths

    def pad(self, rows: NDArray[np.int64], pad_token_id: int, tokens: int | None = None) -> Batch:
        """Pad rows on the right to ``tokens``: ``input_ids`` with ``pad_token_id``, other inputs with 0; int64 ``(rows, tokens)``.

        ``tokens`` is that of the longest row if it is not given, and never less.
        """
        lengths = self.lengths_of(rows)
        if tokens is None:
            tokens = int(lengths.max(initial=0))
        real = np.arange(tokens) < lengths[:, None]
        source = (self.offsets[rows][:, None] + np.arange(real.shape[1]))[real]
        batch = {}
        for name, values in self.values.items():
            padded = np.full(real.shape, pad_token_id if name == "input_ids" else 0, dtype=np.int64)
            padded[real] = values[source]
            batch[name] = padded
        return batch


@dataclass(frozen=True)
class TokenizedSplit(TokenizedRows):
    """Tokenized rows with labels: class ids (int64) or regression targets (float32) of shape ``(rows,)``."""

    labels: NDArray[np.int64] | NDArray[np.float32]
    task: Task

    @staticmethod
    def read(rows: SplitReader) -> "MappedSplit":
        """Map a split of ``data/tokenized/`` into memory, from all its files."""
        tokens = TokenMap.open(rows)
        labels = read_task(rows.schema)
        return MappedSplit(tokens.values, tokens.offsets, tokens.labels, labels, tokens)

    def take(self, rows: NDArray[np.int64]) -> "TokenizedSplit":
        """Return a split of some rows, in the given order and in memory."""
        lengths = self.lengths_of(rows)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        source = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        values = {name: column[source] for name, column in self.values.items()}
        return TokenizedSplit(values, offsets, self.labels[rows], self.task)


@dataclass(frozen=True)
class MappedSplit(TokenizedSplit):
    """A split of ``data/tokenized/``, whose arrays are mapped into memory and read-only."""

    tokens: TokenMap


def length_sorted_batches(lengths: NDArray[np.int64], batch_size: int) -> list[NDArray[np.int64]]:
    """Return row numbers in batches of similar length, longest first.

    Sorting avoids almost all padding, and the longest batch first shows at once if memory suffices. Every row
    is in exactly one batch. Rows of the same length keep their order.
    """
    order = np.argsort(-lengths, kind="stable")
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
