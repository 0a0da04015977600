"""The splits of ``data/tokenized/``, mapped into memory. Does not import torch.

The arrays of a split are files in a folder beside ``data/tokenized/``, which the first process that reads the
split makes. So memory does not grow with the rows, and the processes of a training share it.
"""

import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from tuneline.core.runtime.files import locked, replace_directory
from tuneline.core.runtime.terminal import progress
from tuneline.core.stage.records import content_key, file_hash
from tuneline.core.stage.tables import (
    ANSWER,
    LABELS,
    WINDOW_LENGTHS,
    SplitReader,
    input_columns,
    numpy_values,
)
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import array_of, read_task
from tuneline.model.tasks.task import Labels
from tuneline.model.tokens.batches import RowWindows, TokenizedRows, joined_ranges, row_offsets
from tuneline.model.tokens.long_text import Answer


@dataclass(frozen=True)
class TokenizedSplit(TokenizedRows):
    """Tokenized rows with labels of shape ``(rows, *Task.label_shape)``."""

    labels: Labels
    task: Task

    @classmethod
    def read(cls, rows: SplitReader) -> Self:
        """Map a split of ``data/tokenized/`` into memory, from all its files. Its arrays are read-only."""
        # only the content counts: a split is mapped once, by whatever path it is opened
        key = content_key([file_hash(path) for path in rows.paths])
        mapped = rows.folder.with_name(f".{rows.folder.name}.mapped")
        folder = mapped / f"{rows.split}-{key}"
        if not folder.exists():
            mapped.mkdir(parents=True, exist_ok=True)
            with locked(mapped / f"{rows.split}.lock", required=False):
                if not folder.exists():  # no other process has made it meanwhile
                    for old in mapped.glob(f"*{rows.split}-*"):
                        shutil.rmtree(old)
                    _write_arrays(rows, folder)

        values = {}
        for name in input_columns(rows.schema):
            values[name] = _mapped(folder / name, rows.schema.field(name).type.value_type.to_pandas_dtype())
        offsets = np.load(folder / "offsets.npy")
        windows = None
        if WINDOW_LENGTHS in rows.schema.names:
            first_windows = np.load(folder / "first_windows.npy")
            window_lengths = _mapped(folder / WINDOW_LENGTHS, np.int32)
            answer = cast("Answer", rows.schema.metadata[ANSWER].decode())
            windows = RowWindows(first_windows, row_offsets(window_lengths), answer)
        labels = np.load(folder / "labels.npy", mmap_mode="r")
        return cls(values, offsets, labels, read_task(rows.schema), windows=windows)

    def take(self, rows: NDArray[np.int64]) -> "TokenizedSplit":
        """Return a split of the rows with these numbers, in this order and in memory."""
        lengths = self.lengths_of(rows)
        source = joined_ranges(self.offsets[:-1][rows], lengths)
        values = {name: column[source] for name, column in self.values.items()}
        windows = None
        if self.windows is not None:
            windows = self.windows.take(rows)
        return TokenizedSplit(values, row_offsets(lengths), self.labels[rows], self.task, windows=windows)

    def sample(self, most: int, seed: int) -> "TokenizedSplit":
        """Return at most so many rows, drawn with the seed, in the order of the file."""
        if len(self) <= most:
            return self
        rows = np.random.default_rng(seed).choice(len(self), most, replace=False)
        return self.take(np.sort(rows))


def _mapped(path: Path, dtype: Any) -> NDArray[Any]:
    """Return the numbers in a file, which is not read into memory."""
    if path.stat().st_size == 0:  # which cannot be mapped
        return np.zeros(0, dtype)
    return np.asarray(np.memmap(path, dtype, mode="r"))


def _write_arrays(rows: SplitReader, folder: Path) -> None:
    """Write the arrays of a split, with the tokens of one batch of rows in memory."""
    task = read_task(rows.schema)
    labels = np.empty((rows.rows, *task.label_shape), task.label_dtype)
    lists = [name for name in rows.schema.names if name != LABELS]
    lengths: Mapping[str, list[NDArray[Any]]] = {name: [np.zeros(0, np.int64)] for name in lists}
    first = 0
    with (
        progress(f"mapping {rows.name}", rows.rows) as step,
        replace_directory(folder) as partial,
        ExitStack() as stack,
    ):
        files = {name: stack.enter_context((partial / name).open("wb")) for name in lists}
        for batch in rows.batches():
            labels[first : first + len(batch)] = array_of(task, batch[LABELS])
            for name, file in files.items():
                lengths[name].append(np.diff(numpy_values(batch[name].offsets)))
                file.write(numpy_values(batch[name].flatten()).tobytes())
            first += len(batch)
            step.advance(len(batch))

        np.save(partial / "labels.npy", labels)
        np.save(partial / "offsets.npy", row_offsets(np.concatenate(lengths["input_ids"])))
        if WINDOW_LENGTHS in lengths:
            np.save(partial / "first_windows.npy", row_offsets(np.concatenate(lengths[WINDOW_LENGTHS])))
