"""Applies ``data/corrections/`` to the rows that are written: after the division into splits, so that no other row changes its split."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.corrections import KEY, LATER, Corrections, dropped_file, label_file, row_keys
from tuneline.files import replace_file
from tuneline.files.hashes import file_hash
from tuneline.files.schemas import LABELS, ROW_GROUP, UNLABELLED, LabelSchema, raw_schema, write_batches
from tuneline.records.source import AppliedCorrections
from tuneline.terminal import say

Ids = NDArray[np.int64]
NAMED = 5
"""Lines that a warning names."""


class Lookup:
    """Finds the entries of a file of corrections by the hash of a row's texts.

    Args:
        keys: The hashes of the entries.
    """

    def __init__(self, keys: pa.ChunkedArray) -> None:
        hashes = np.array(keys.to_pylist(), dtype="S32")
        self._order = np.argsort(hashes, kind="stable")
        self._sorted = hashes[self._order]

    def find(self, keys: NDArray[np.bytes_]) -> tuple[Ids, Ids]:
        """Return all pairs of a row and an entry with the same hash: positions in ``keys`` and entries, in the order of the rows."""
        first, stop = np.searchsorted(self._sorted, keys, "left"), np.searchsorted(self._sorted, keys, "right")
        rows = np.repeat(np.arange(len(keys)), stop - first)
        offsets = np.arange(len(rows)) - np.repeat(np.cumsum(stop - first) - (stop - first), stop - first)
        return rows, self._order[np.repeat(first, stop - first) + offsets]


class Corrector:
    """Corrects the rows of the splits, in the order in which they are written, and counts what the corrections did.

    Attributes:
        relabelled: Rows that got another label.
        left_out: Rows that were left out.
    """

    def __init__(self, corrections: Corrections, text_columns: Sequence[str], labels: LabelSchema) -> None:
        self._labels, self._dropped = corrections.labels, corrections.dropped
        self._texts = list(text_columns)
        self._by_label, self._by_dropped = Lookup(self._labels[KEY]), Lookup(self._dropped[KEY])
        self._before, self._after = (label_values(self._labels[name], labels) for name in ("before", "after"))
        self._usable = self._after >= 0 if labels.names is not None else np.isfinite(self._after)
        self._from = np.array(self._dropped["split"].to_pylist(), dtype=object)
        self._later = np.array(self._dropped["rows"].to_pylist(), dtype=object) == LATER
        # Of each label correction: a row has its texts; it applied; a row has its texts and a label of neither side.
        self._found, self._applied, self._differs = np.zeros((3, self._labels.num_rows), dtype=bool)
        self._matched = np.zeros(self._dropped.num_rows, dtype=bool)
        self.relabelled = self.left_out = 0
        self._has_classes = labels.names is not None
        self._taken: set[int] = set()  # labels that rows had before they were corrected or left out
        self._present: set[int] = set()  # labels of the rows that are written

    def apply(self, split: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the corrected rows of a split, given those of ``data/raw``."""
        if not self._labels.num_rows and not self._dropped.num_rows:
            yield from batches
            return
        for batch in batches:
            keys = np.array(row_keys([batch[name] for name in self._texts]).to_pylist(), dtype="S32")
            kept = pa.array(self._keep(split, keys))
            corrected = self._relabel(batch, keys)
            if self._has_classes:
                taken = pc.or_(pc.not_equal(batch[LABELS], corrected[LABELS]), pc.invert(kept))
                self._taken.update(pc.unique(batch[LABELS].filter(taken)).to_pylist())
                self._present.update(pc.unique(corrected[LABELS].filter(kept)).to_pylist())
            yield corrected.filter(kept)

    def _relabel(self, batch: pa.RecordBatch, keys: NDArray[np.bytes_]) -> pa.RecordBatch:
        rows, entries = self._by_label.find(keys)
        if not len(rows):
            return batch
        index = batch.schema.get_field_index(LABELS)
        values = batch.column(index).to_numpy(zero_copy_only=False).copy()
        current = values[rows]
        self._found[entries] = True
        usable = (current == self._before[entries]) & self._usable[entries]
        self._applied[entries[usable]] = True
        self._differs[entries[~usable & (current != self._after[entries])]] = True
        values[rows[usable]] = self._after[entries[usable]]
        self.relabelled += len(rows[usable])
        return batch.set_column(index, batch.schema.field(index), pa.array(values, batch.schema.field(index).type))

    def _keep(self, split: str, keys: NDArray[np.bytes_]) -> NDArray[np.bool_]:
        rows, entries = self._by_dropped.find(keys)
        here = (self._from[entries] == "") | (self._from[entries] == split)
        rows, entries = rows[here], entries[here]
        is_first = np.zeros(len(rows), dtype=bool)
        is_first[np.unique(entries, return_index=True)[1]] = True
        spared = self._later[entries] & is_first & ~self._matched[entries]
        self._matched[entries] = True
        kept = np.ones(len(keys), dtype=bool)
        kept[rows[~spared]] = False
        self.left_out += int((~kept).sum())
        return kept

    def emptied_classes(self) -> list[int]:
        """Return the ids of the classes that had rows and have none now; none if fewer than two others are left."""
        empty = sorted(self._taken - self._present - {UNLABELLED})
        return empty if len(self._present - {UNLABELLED}) > 1 else []

    def report(self) -> AppliedCorrections | None:
        """Print what was applied and what was not, and return it; ``None`` without corrections."""
        if not self._labels.num_rows and not self._dropped.num_rows:
            return None
        labels = f"{self.relabelled:,} label{'s' * (self.relabelled != 1)} corrected"
        say(f"download: {labels}, {self.left_out:,} row{'s' * (self.left_out != 1)} left out, as data/corrections says.")
        stale, done = self._differs & ~self._applied, self._found & ~self._applied & ~self._differs
        lost = "The source has lost these rows or changed their texts, or data.max_rows, data.as_of or data.last_days leaves them out."
        _warn(label_file(), ~self._found, "match no row of this data", lost)
        _warn(label_file(), stale, "are not applied", "Their rows have another label now than the one that was corrected.")
        _warn(label_file(), done, "are not needed", "The source has these labels by now: remove the lines.")
        _warn(dropped_file(), ~self._matched, "match no row of this data", lost)
        return AppliedCorrections(
            labels=self.relabelled,
            dropped=self.left_out,
            unmatched=int((~self._found).sum() + (~self._matched).sum()),
            stale=int(stale.sum()),
            sha256={path.name: file_hash(path) for path in (label_file(), dropped_file()) if path.exists()},
        )


def remove_classes(files: Iterable[tuple[Path, Path]], labels: LabelSchema, empty: Collection[int]) -> LabelSchema:
    """Copy the files of the raw splits without the classes that have no rows: the other ones get new ids.

    Args:
        files: Each file, and the path of its copy.
        labels: Their label schema.
        empty: Ids of the classes.

    Returns:
        The label schema with the other classes.
    """
    kept = [label for label in range(labels.outputs) if label not in empty]
    fewer = LabelSchema(tuple((labels.names or ())[label] for label in kept))
    for path, target in files:
        with replace_file(target) as partial, pq.ParquetFile(path) as file:
            schema = raw_schema(file.schema_arrow.names[:-2], fewer)
            write_batches(partial, schema, (_renumbered(batch, kept, schema) for batch in file.iter_batches(ROW_GROUP)))
    return fewer


def _renumbered(batch: pa.RecordBatch, kept: Sequence[int], schema: pa.Schema) -> pa.RecordBatch:
    ids = pc.fill_null(pc.index_in(batch[LABELS], value_set=pa.array(kept, pa.int64())), UNLABELLED).cast(pa.int64())
    return batch.set_column(batch.schema.get_field_index(LABELS), LABELS, ids).cast(schema)


def label_values(names: pa.ChunkedArray, labels: LabelSchema) -> NDArray[Any]:
    """Return labels as ``data/raw`` has them: class ids, -2 for an unknown class; or numbers, NaN for invalid ones."""
    if labels.names is not None:
        ids: Ids = pc.fill_null(pc.index_in(names, value_set=pa.array(labels.names, pa.string())), -2).to_numpy().astype(np.int64)
        return ids
    return np.array([_number(name) for name in names.to_pylist()], dtype=np.float32)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _warn(path: Path, entries: NDArray[np.bool_], problem: str, hint: str) -> None:
    if lines := (np.flatnonzero(entries)[:NAMED] + 2).tolist():
        more = ", ..." if entries.sum() > NAMED else ""
        where = f"{path}, line {', '.join(map(str, lines))}{more}"
        say(f"download: warning: {entries.sum():,} of {len(entries):,} corrections {problem} ({where}). {hint}")
