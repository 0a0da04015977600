"""The files of a split: one Parquet file, or shards of a bounded number of rows, named as the hub names them.

``train.parquet`` is the shape of small data, ``train-00000-of-00012.parquet`` that of large data. Readers take both.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.core.errors import DataError, StageError
from tuneline.core.paths import split_file
from tuneline.core.schemas import ROW_GROUP

_SHARD = re.compile(r"-(?P<number>\d{5,})-of-(?P<count>\d{5,})\.parquet")


def shard_file(folder: Path, split: str, number: int, count: int) -> Path:
    """Return the path of one file of a split: ``train.parquet`` if it is the only one, else ``train-00000-of-00012.parquet``."""
    return split_file(folder, split) if count == 1 else folder / f"{split}-{number:05d}-of-{count:05d}.parquet"


def split_files(folder: Path, split: str) -> tuple[Path, ...]:
    """Return the files of a split in the order of their rows; none if the split does not exist.

    Raises:
        DataError: A shard is missing, or the files are those of two versions of the split.
    """
    single = split_file(folder, split)
    found: dict[int, dict[int, Path]] = {1: {0: single}} if single.exists() else {}
    for path in folder.glob(f"{split}-*.parquet"):
        if match := _SHARD.fullmatch(path.name.removeprefix(split)):
            found.setdefault(int(match["count"]), {})[int(match["number"])] = path
    if not found:
        return ()
    if len(found) > 1:
        names = " and ".join(min(paths.values()).name for _, paths in sorted(found.items()))
        hint = "Remove those of the old one; `dvc checkout --force` does."
        raise DataError(f"{folder} has files of more than one version of the split {split}, such as {names}.", hint)
    ((count, paths),) = found.items()
    if missing := sorted(set(range(count)) - paths.keys()):
        name = shard_file(folder, split, missing[0], count)
        more = f", and {len(missing) - 1} more of its {count} files" if len(missing) > 1 else ""
        raise DataError(f"{name} is missing{more}.", "Run `dvc checkout` or `dvc pull`, or the stage that writes it: `dvc repro`.")
    return tuple(paths[number] for number in range(count))


def is_split_file(name: str, split: str) -> bool:
    """Return True if a file with this name is the split, or a shard of it."""
    return name == split_file(Path(), split).name or (name.startswith(split) and _SHARD.fullmatch(name.removeprefix(split)) is not None)


@dataclass(frozen=True)
class SplitReader:
    """The rows of a split, whatever the number of its files (``paths``, in the order of the rows). Opens one file at a time."""

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
        """Find the files of a split that the stage ``made_by`` writes.

        Raises:
            StageError: The split does not exist.
            DataError: A shard is missing.
        """
        found = cls.find(folder, split)
        if found is None:
            raise StageError(f"{split_file(folder, split)} is missing.", f"The stage {made_by!r} writes it: run `dvc repro {made_by}`.")
        return found

    @property
    def name(self) -> str:
        """What messages call the split: its file, or its folder and name if it has several."""
        return str(self.paths[0]) if len(self.paths) == 1 else f"{self.folder / self.split} ({len(self.paths)} files)"

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the first file, with the label names."""
        with _opened(self.paths[0]) as file:
            return file.schema_arrow

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Number of the first row of each file, then the number of all rows; shape ``(files + 1,)``.

        Raises:
            DataError: A file is damaged, or has other columns or classes than the first.
        """
        sizes = [0]
        for path in self.paths:
            with _opened(path) as file:
                if not file.schema_arrow.equals(self.schema, check_metadata=True):
                    raise DataError(f"{path} has other columns or classes than {self.paths[0].name}.", "Write both anew: `dvc repro -f`.")
                sizes.append(file.metadata.num_rows)
        return np.cumsum(sizes)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.starts[-1])

    def batches(self, columns: Sequence[str] | None = None, at_most: int = ROW_GROUP) -> Iterator[pa.RecordBatch]:
        """Yield the rows in their order, in batches of at most ``at_most`` rows of one file; nothing for a split without rows.

        Raises:
            DataError: A file is damaged. The message names it and the row of the file.
        """
        for path in self.paths:
            first = 0
            with _opened(path) as file:
                batches = file.iter_batches(batch_size=at_most, columns=None if columns is None else list(columns))
                while True:
                    try:
                        batch = next(batches, None)
                    except (pa.ArrowException, OSError) as error:
                        raise damaged(path, error, first) from None
                    if batch is None:
                        break
                    yield batch if columns is None else batch.select(list(columns))  # the file has its own order
                    first += batch.num_rows

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read all rows, or some columns of them, into memory."""
        fields = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns], self.schema.metadata)
        return pa.Table.from_batches(self.batches(columns), fields)

    def take(self, rows: NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
        """Read chosen rows, one row group at a time. Row numbers ascend; those beyond the last row are ignored.

        Raises:
            DataError: A file is damaged. The message names it and the row of the file.
        """
        taken, start = [], 0
        for path in self.paths:
            first = 0
            with _opened(path) as file:
                for group in range(file.num_row_groups):
                    end = start + file.metadata.row_group(group).num_rows
                    inside = rows[slice(*np.searchsorted(rows, (start, end)))] - start
                    if len(inside):
                        try:
                            taken.append(file.read_row_group(group, columns=list(columns)).take(pa.array(inside)))
                        except (pa.ArrowException, OSError) as error:
                            raise damaged(path, error, first) from None
                    first += file.metadata.row_group(group).num_rows
                    start = end
        schema = pa.schema([self.schema.field(name) for name in columns])
        return pa.concat_tables(taken).select(list(columns)) if taken else schema.empty_table()

    def place(self, row: int) -> str:
        """Return file and row of the file for messages: ``data/raw/train.parquet, row 17``."""
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"{self.paths[number]}, row {row - int(self.starts[number])}"

    def places(self, rows: NDArray[np.int64]) -> str:
        """Return the files of rows and their numbers there, for messages: ``data/raw/train.parquet: 3, 17``."""
        ordered = np.sort(rows)
        files = np.searchsorted(self.starts, ordered, side="right") - 1
        numbers = ordered - self.starts[files]
        return "; ".join(f"{self.paths[file]}: {', '.join(map(str, numbers[files == file].tolist()))}" for file in np.unique(files))


def damaged(path: Path, error: Exception, row: int = 0) -> DataError:
    """Return the error for a file that cannot be read, or not after a row."""
    where = f" after row {row}" if row else ""
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    hint = "It is damaged: `dvc checkout --force` restores it, `dvc repro -f` writes it anew."
    return DataError(f"{path} cannot be read{where}: {reason}", hint)


def _opened(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from None
