"""The raw splits: their scalar columns, keys and words, and the rows that repeat another row."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.validate.columns import StoredColumns
from stages.validate.copies import NONE, first_copies, label_conflicts, leaks
from stages.validate.near_duplicates import NearDuplicates
from stages.validate.raw_shards import RawShard
from stages.validate.rows import files_of
from tuneline.engines import map_tasks
from tuneline.files.schemas import LABELS, UNLABELLED, LabelSchema
from tuneline.files.shards import SplitReader
from tuneline.params import RunParams
from tuneline.text import EncodedWords, Keys, VocabularyCounts


@dataclass(frozen=True)
class RawSplit:
    """One raw split, and what was derived from it. Rows, keys and words are on disk, and read each time that they are asked for.

    Attributes:
        source: The split.
        shards: Its files and their results.
        columns: Scalar columns: ``missing``, ``visible_characters`` (of the shorter text), ``characters``, ``control_characters``,
            ``broken_characters``, ``labels``; masks: ``beyond_ascii``, and ``is_header`` where each text is the name of its column;
            ``key``, and ``unordered_key``, which does not depend on the order of the texts in a row.
        vocabulary: Counts of the words of all rows.
    """

    source: SplitReader
    shards: Sequence[RawShard]
    columns: StoredColumns
    vocabulary: VocabularyCounts

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.columns.rows

    @property
    def labels(self) -> NDArray[Any]:
        """Labels of shape ``(rows,)``."""
        return self.columns.column(LABELS)

    @property
    def keys(self) -> Keys:
        """Keys of the rows' texts."""
        return self.columns.column("key")

    @property
    def unordered_keys(self) -> Keys:
        """Keys that do not depend on the order of the texts in a row."""
        return self.columns.column("unordered_key")

    def words(self) -> Iterator[EncodedWords]:
        """Yield the words of the rows, a batch of rows at a time."""
        for shard in self.shards:
            yield from shard.words()

    @cached_property
    def is_labelled(self) -> bool:
        """True if any row has a label; a split that is published without labels has -1 in all rows."""
        return not self.rows or any((part[LABELS] != UNLABELLED).any() for part in self.columns.frames([LABELS]))


def read_raw(splits: Mapping[str, SplitReader], text_columns: Sequence[str], folder: Path, run: RunParams) -> dict[str, RawSplit]:
    """Derive the columns, keys and words of raw splits, one file at a time.

    Args:
        splits: The splits by name.
        text_columns: Their columns with texts.
        folder: Folder of the results, which all workers of the engine can write.
        run: The engine.
    """
    shards = {name: [RawShard(part, tuple(text_columns), folder) for part in files_of(split)] for name, split in splits.items()}
    for _ in map_tasks(RawShard.derive, [shard for found in shards.values() for shard in found], run, name="texts"):
        pass
    return {name: _of_shards(split, shards[name], folder) for name, split in splits.items()}


def _of_shards(source: SplitReader, shards: Sequence[RawShard], folder: Path) -> RawSplit:
    columns = StoredColumns.of(SplitReader.open(folder / "columns", source.split, "validate"))
    return RawSplit(source, shards, columns, reduce(VocabularyCounts.plus, (shard.vocabulary() for shard in shards)))


def copy_columns(
    raw: Mapping[str, RawSplit], split: str, near_duplicates: NearDuplicates, labels: LabelSchema
) -> dict[str, NDArray[np.generic]]:
    """Return, for each row of a split, the row that it repeats or resembles.

    Args:
        raw: All raw splits, earlier splits first.
        split: The split whose rows are compared.
        near_duplicates: Those of this split.
        labels: The label schema.

    Returns:
        Columns of shape ``(rows,)``, -1 for a row that repeats no other. ``duplicate_of`` and ``conflict_with`` are rows of the split
        itself. ``leak_of`` and ``near_duplicate_of`` are rows numbered through all splits; ``similarity`` belongs to the latter.
    """
    current = raw[split]
    columns: dict[str, NDArray[np.generic]] = {"duplicate_of": first_copies(current.keys)}
    if current.is_labelled:
        tolerance = float(np.nanstd(current.labels)) if labels.is_regression else 0.0
        columns["conflict_with"] = label_conflicts(current.keys, current.labels, tolerance)
    if earlier := list(raw)[: list(raw).index(split)]:
        columns["leak_of"] = leaks([raw[name].unordered_keys for name in earlier], current.unordered_keys)
    return columns | {"near_duplicate_of": near_duplicates.origin, "similarity": near_duplicates.similarity}


def copy_notes(raw: Mapping[str, RawSplit], columns: Mapping[str, NDArray[np.generic]]) -> dict[str, list[str]]:
    """Return a line for the checks ``leakage`` and ``near_duplicates``: how many rows repeat or resemble a row of which split.

    Args:
        raw: All raw splits, earlier splits first.
        columns: Result of ``copy_columns``.
    """
    ends = np.cumsum([split.rows for split in raw.values()])
    notes = {}
    for check, column, verb in (("leakage", "leak_of", "repeat"), ("near_duplicates", "near_duplicate_of", "resemble")):
        origin = columns.get(column, np.empty(0, np.int64))
        counts = np.bincount(np.searchsorted(ends, origin[origin != NONE], side="right"), minlength=len(raw))
        parts = [f"{count:,} {verb}{'s' * (count == 1)} a row of {name}" for name, count in zip(raw, counts.tolist(), strict=True) if count]
        if parts:
            notes[check] = [f"Of these rows, {', '.join(parts)}."]
    return notes
