"""The raw splits: their scalar columns, keys and words, and the rows that repeat or resemble another row."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.checks.analysis.near_duplicates import NO_ROW, NearDuplicateRows, OriginRows, first_copies
from tuneline.checks.definitions import Columns
from tuneline.core.params import RunParams
from tuneline.core.runtime.files import replace_file
from tuneline.core.runtime.terminal import phase
from tuneline.core.stage.engines import map_tasks
from tuneline.core.stage.tables import LABELS, SplitReader
from tuneline.core.stage.texts import (
    CONTROL_CLASS,
    EncodedWords,
    Keys,
    VocabularyCounts,
    broken_characters,
    combined_keys,
    normalized,
    text_keys,
    unordered_row_keys,
    words,
)
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import labels_of
from tuneline.model.tasks.task import UNLABELLED, Labels

BOM = "\ufeff"
"""Byte order mark: the start of a file that was appended to another."""
BATCH_ROWS = 65_536


def read_batches(files: SplitReader) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files in batches; without rows one empty batch, so that the columns are known."""
    if not files.rows:
        yield pa.RecordBatch.from_pylist([], schema=files.schema)
    yield from files.batches(None, BATCH_ROWS)


def files_of(splits: Mapping[str, SplitReader]) -> list[SplitReader]:
    """Return a reader of each file of splits."""
    files = []
    for split in splits.values():
        files += [SplitReader(split.folder, split.split, (path,)) for path in split.paths]
    return files


def save_columns(folder: Path, source: SplitReader, batches: Sequence[Columns]) -> None:
    """Write the columns of the rows of a file, for ``load_columns``.

    Counts are int32: a value is less than the characters of a batch.
    """
    columns = {}
    for name in batches[0]:
        values = np.concatenate([batch[name] for batch in batches])
        if values.dtype == np.int64 and name != LABELS:
            values = values.astype(np.int32)
        columns[name] = values
    save_arrays(folder / f"{source.paths[0].stem}.npz", columns)


def load_columns(folder: Path, split: SplitReader) -> Columns:
    """Read the columns of all files of a split."""
    parts = []
    for path in split.paths:
        with np.load(folder / f"{path.stem}.npz") as arrays:
            parts.append(dict(arrays))
    columns = {}
    for name in parts[0]:
        columns[name] = np.concatenate([part[name] for part in parts])
    return columns


def save_arrays(path: Path, arrays: Columns) -> None:
    """Write arrays to a file atomically: a task may run twice."""
    with replace_file(path) as partial_path, partial_path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def derive_raw(source: SplitReader, text_columns: Sequence[str], task: Task, folder: Path) -> None:
    """Write the columns and the words of a file of a raw split, reading a batch of rows at a time."""
    phase(f"texts of {source.paths[0].stem}")
    batches = []
    for number, batch in enumerate(read_batches(source)):
        texts = [normalized(pc.fill_null(batch[name], "")) for name in text_columns]
        hashes = list(map(text_keys, texts))
        columns = scalar_columns(batch, text_columns, task)
        columns["key"] = combined_keys(hashes)
        columns["unordered_key"] = unordered_row_keys(hashes)
        batches.append(columns)

        encoded = EncodedWords.of(words(texts))
        save_arrays(
            folder / "words" / source.paths[0].stem / f"{number:06d}.npz",
            {"keys": encoded.keys, "indices": encoded.indices, "lengths": encoded.lengths},
        )
    save_columns(folder, source, batches)


def scalar_columns(batch: pa.RecordBatch, text_columns: Sequence[str], task: Task) -> Columns:
    """Return the scalar columns of a batch: all of ``RawSplit`` except the keys."""
    rows = batch.num_rows
    characters = np.zeros(rows, dtype=np.int64)
    control_characters = np.zeros(rows, dtype=np.int64)
    broken = np.zeros(rows, dtype=np.int64)
    visible = np.zeros(rows, dtype=np.int64)
    for name in text_columns:
        texts = pc.fill_null(batch[name], "")
        characters += _as_integers(pc.utf8_length(texts))
        control_characters += _as_integers(pc.count_substring_regex(texts, CONTROL_CLASS))
        broken += broken_characters(texts)
        visible += _as_integers(pc.utf8_length(pc.utf8_trim_whitespace(texts)))

    labels = labels_of(task, batch[LABELS])
    return {
        "characters": characters,
        "control_characters": control_characters,
        "broken_characters": broken,
        "visible_characters": visible,
        LABELS: task.codes(labels),
        "valid_label": task.valid(labels).astype(np.int64),
    }


def _as_integers(column: pa.Array) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


@dataclass(frozen=True)
class RawSplit:
    """One raw split, and what was derived from it.

    Attributes:
        columns: Scalar columns: ``visible_characters`` (without white space around them),
            ``characters``, ``control_characters``, ``broken_characters``, ``labels`` (``Task.codes``),
            ``valid_label``; ``key``, and ``unordered_key``, which does not depend on the order of the texts.
        folder: The folder of the words of its files.
    """

    task: Task
    source: SplitReader
    columns: Columns
    folder: Path

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.columns["key"])

    @cached_property
    def labels(self) -> Labels:
        """Labels of shape ``(rows, *label_shape)``."""
        return labels_of(self.task, self.source.read([LABELS])[LABELS])

    def words(self) -> Iterator[EncodedWords]:
        """Yield the words of the rows, a batch of rows at a time."""
        for file in self.source.paths:
            for path in sorted((self.folder / file.stem).iterdir()):
                with np.load(path) as arrays:
                    yield EncodedWords(arrays["keys"], arrays["indices"], arrays["lengths"])

    @cached_property
    def vocabulary(self) -> VocabularyCounts:
        """How often each word occurs."""
        return VocabularyCounts.of(self.words())

    @property
    def is_labelled(self) -> bool:
        """True if any row has a label; a split that is published without labels has -1 in all rows."""
        return not self.rows or bool((self.columns[LABELS] != UNLABELLED).any())


def read_raw(
    splits: Mapping[str, SplitReader], text_columns: Sequence[str], task: Task, folder: Path, run: RunParams
) -> dict[str, RawSplit]:
    """Derive the columns, keys and words of raw splits, one file at a time.

    All workers of the engine can write the folder.
    """
    derive = partial(derive_raw, text_columns=tuple(text_columns), task=task, folder=folder)
    for _ in map_tasks(derive, files_of(splits), run, name="texts"):
        pass  # the results are in files
    raw = {}
    for name, split in splits.items():
        raw[name] = RawSplit(task, split, load_columns(folder, split), folder / "words")
    return raw


def label_conflicts(keys: Keys, labels: Labels, tolerance: float) -> OriginRows:
    """Return, for each row, a row with the same text and a label that differs by more than ``tolerance``."""
    conflicts = np.full(len(keys), NO_ROW, np.int32)

    # rows of one text stand together, sorted by label: find where each text begins and ends
    order = np.lexsort((labels, keys))
    sorted_keys = keys[order]
    sorted_labels = labels[order].astype(np.float64)
    starts = np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]])[: len(keys)]
    ends = np.r_[starts[1:], len(keys)] - 1
    text = np.repeat(np.arange(len(starts)), ends - starts + 1)
    low = starts[text]
    high = ends[text]

    # so the most different label is at one of the two ends
    to_low = sorted_labels - sorted_labels[low]
    to_high = sorted_labels[high] - sorted_labels
    most_different = np.where(to_high >= to_low, high, low)
    is_conflict = sorted_labels[high] - sorted_labels[low] > tolerance
    conflicts[order] = np.where(is_conflict, order[most_different], NO_ROW)
    return conflicts


def first_leaks(earlier: Sequence[Keys], keys: Keys) -> OriginRows:
    """Return, for each row of a split, the first row of the earlier splits with the same key.

    Rows of the earlier splits are numbered through all of them.
    """
    before = sum(map(len, earlier))
    origin = first_copies(np.concatenate([*earlier, keys]))[before:]
    # from ``before`` on, the first row with this key is in the split itself
    return np.where(origin < before, origin, np.int32(NO_ROW))


def copy_columns(raw: Mapping[str, RawSplit], split: str, near_duplicates: NearDuplicateRows) -> Columns:
    """Return, for each row of a split, the row that it repeats or resembles, numbered through all splits.

    ``raw`` has all raw splits, earlier ones first. Columns have the shape ``(rows,)``, and ``NO_ROW`` for a
    row that repeats no other; ``similarity`` belongs to ``near_duplicate_of``.
    """
    current = raw[split]
    names = list(raw)
    earlier = names[: names.index(split)]
    start = sum(raw[name].rows for name in earlier)
    keys = current.columns["key"]
    columns: Columns = {"duplicate_of": _numbered(first_copies(keys), start)}
    if current.is_labelled:
        codes = current.columns[LABELS]
        tolerance = 0.0 if current.task.has_classes else float(np.nanstd(codes))
        columns["conflict_with"] = _numbered(label_conflicts(keys, codes, tolerance), start)
    if earlier:
        earlier_keys = [raw[name].columns["unordered_key"] for name in earlier]
        columns["leak_of"] = first_leaks(earlier_keys, current.columns["unordered_key"])
    columns["near_duplicate_of"] = near_duplicates.origin
    columns["similarity"] = near_duplicates.similarity
    return columns


def _numbered(rows: OriginRows, start: int) -> OriginRows:
    """Return the rows of a split numbered through all splits, of which ``start`` rows are earlier."""
    return np.where(rows == NO_ROW, rows, rows + np.int32(start))


def split_of_rows(
    raw: Mapping[str, RawSplit], rows: NDArray[np.integer]
) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """Return the split of rows that are numbered through all splits, and their numbers in it."""
    ends = np.cumsum([split.rows for split in raw.values()])
    position = np.searchsorted(ends, rows, side="right")
    return np.array(list(raw))[position], rows - np.append(0, ends)[position]
