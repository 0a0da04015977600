"""The corrections in ``data/corrections/``, applied to the rows that are written.

They are applied after the division into splits, so that no other row changes its split.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.core.runtime.terminal import say
from tuneline.core.stage.provenance import AppliedCorrections
from tuneline.core.stage.records import file_hash
from tuneline.core.stage.tables import LABELS
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import array_of, column_of, parsed_labels
from tuneline.rows.splits.corrections import KEY, LATER, Corrections, dropped_file, label_file, row_keys

NAMED_LINES = 5
"""Lines that a warning names."""
FIRST_LINE = 2
"""Line of the first entry of a file of corrections, below the header."""


class Corrector:
    """Corrects the rows of the splits, in the order in which they are written, and counts what it did."""

    def __init__(self, corrections: Corrections, text_columns: Sequence[str], task: Task) -> None:
        self._task = task
        self._texts = list(text_columns)
        self.relabelled = 0
        self.left_out = 0

        labels = corrections.labels
        self._label_entries = _entries(labels)
        self._before = task.codes(parsed_labels(task, labels["before"]))
        self._after = parsed_labels(task, labels["after"])
        self._after_codes = task.codes(self._after)
        self._usable = task.valid(self._after)
        # of each label correction: a row has its texts and one of its labels
        self._found = np.zeros(labels.num_rows, dtype=bool)

        dropped = corrections.dropped
        self._dropped_entries = _entries(dropped)
        self._split = dropped["split"].to_pylist()
        self._rows = dropped["rows"].to_pylist()
        self._matched = np.zeros(dropped.num_rows, dtype=bool)

    @property
    def _is_empty(self) -> bool:
        return not self._label_entries and not self._dropped_entries

    def apply(self, split: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the corrected rows of a split, given the rows for ``data/raw``."""
        if self._is_empty:
            yield from batches
            return
        for batch in batches:
            keys = row_keys([batch[name] for name in self._texts]).to_pylist()
            kept = []
            for key in keys:
                kept.append(self._is_kept(split, key))
            corrected = self._relabel(batch, keys)
            self.left_out += kept.count(False)
            yield corrected.filter(pa.array(kept))

    def _relabel(self, batch: pa.RecordBatch, keys: Sequence[str]) -> pa.RecordBatch:
        """Return the rows of a batch with the labels of the label corrections."""
        column = batch.schema.get_field_index(LABELS)
        labels = array_of(self._task, batch.column(column)).copy()
        codes = self._task.codes(labels)
        for row, key in enumerate(keys):
            for entry in self._label_entries.get(key, ()):
                if codes[row] == self._before[entry] and self._usable[entry]:
                    labels[row] = self._after[entry]
                    self.relabelled += 1
                    self._found[entry] = True
                elif codes[row] == self._after_codes[entry]:
                    self._found[entry] = True
        field = batch.schema.field(column)
        return batch.set_column(column, field, column_of(self._task, labels).cast(field.type))

    def _is_kept(self, split: str, key: str) -> bool:
        """Return False for a row that is left out."""
        is_kept = True
        for entry in self._dropped_entries.get(key, ()):
            if self._split[entry] not in {"", split}:
                continue
            # An entry for later rows spares the first row that has its texts.
            if self._rows[entry] != LATER or self._matched[entry]:
                is_kept = False
            self._matched[entry] = True
        return is_kept

    def report(self) -> AppliedCorrections | None:
        """Print what was applied and what was not, and return it; ``None`` without corrections."""
        if self._is_empty:
            return None
        say(
            f"download: data/corrections: labels corrected: {self.relabelled:,}, rows left out:"
            f" {self.left_out:,}."
        )

        _warn(label_file(), ~self._found)
        _warn(dropped_file(), ~self._matched)

        hashes = {}
        for path in (label_file(), dropped_file()):
            if path.exists():
                hashes[path.name] = file_hash(path)
        return AppliedCorrections(
            labels=self.relabelled,
            dropped=self.left_out,
            unmatched=int((~self._found).sum() + (~self._matched).sum()),
            sha256=hashes,
        )


def _entries(table: pa.Table) -> dict[str, list[int]]:
    """Return the entries of a file of corrections by the hash of a row's texts."""
    entries: dict[str, list[int]] = {}
    for entry, key in enumerate(table[KEY].to_pylist()):
        entries.setdefault(key, []).append(entry)
    return entries


def _warn(path: Path, entries: NDArray[np.bool_]) -> None:
    """Warn about the entries of a file of corrections that match no row, if any."""
    number = entries.sum()
    if not number:
        return
    lines = [str(entry + FIRST_LINE) for entry in np.flatnonzero(entries)[:NAMED_LINES]]
    if number > NAMED_LINES:
        lines.append("...")
    say(
        f"download: warning: {number:,} of {len(entries):,} corrections match no row of this data ({path},"
        f" line {', '.join(lines)}): the source has other texts or labels, or data.max_rows leaves them out."
    )
