"""The corrections in ``data/corrections/``, applied to the rows that are written.

They are applied after the division into splits, so that no other row changes its split.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.analysis.corrections import KEY, LATER, Corrections, dropped_file, label_file, row_keys
from tuneline.core.hashes import file_hash
from tuneline.core.sources import AppliedCorrections
from tuneline.core.tables import LABELS
from tuneline.runtime.terminal import say
from tuneline.tasks import Task
from tuneline.tasks.columns import array_of, column_of, observed_classes, parsed_labels
from tuneline.tasks.task import UNLABELLED

Ids = NDArray[np.int64]
NAMED_LINES = 5
"""Lines that a warning names."""
FIRST_LINE = 2
"""Line of the first entry of a file of corrections, below the header."""


class Lookup:
    """Finds the entries of a file of corrections by the hash of a row's texts."""

    def __init__(self, keys: pa.ChunkedArray) -> None:
        hashes = np.array(keys.to_pylist(), dtype="S32")
        self._order = np.argsort(hashes, kind="stable")
        self._sorted = hashes[self._order]

    def find(self, keys: NDArray[np.bytes_]) -> tuple[Ids, Ids]:
        """Return all pairs of a row and an entry with the same hash, in the order of the rows.

        Returns:
            Positions in ``keys``, and entries, both of shape ``(pairs,)``.
        """
        first = np.searchsorted(self._sorted, keys, "left")
        stop = np.searchsorted(self._sorted, keys, "right")
        entries = stop - first  # of each row
        rows = np.repeat(np.arange(len(keys)), entries)
        # The number of each pair among the pairs of its row.
        number = np.arange(len(rows)) - np.repeat(np.cumsum(entries) - entries, entries)
        return rows, self._order[np.repeat(first, entries) + number]


class Corrector:
    """Corrects the rows of the splits, in the order in which they are written, and counts what it did."""

    def __init__(self, corrections: Corrections, text_columns: Sequence[str], task: Task) -> None:
        self._task = task
        self._texts = list(text_columns)

        self._labels = corrections.labels
        self._by_label = Lookup(self._labels[KEY])
        self._before = task.codes(parsed_labels(task, self._labels["before"]))
        self._after = parsed_labels(task, self._labels["after"])
        self._after_codes = task.codes(self._after)
        self._usable = task.valid(self._after)
        # Of each label correction: a row has its texts; it applied; a row has its texts and a label of
        # neither side.
        self._found, self._applied, self._differs = np.zeros((3, self._labels.num_rows), dtype=bool)
        self.relabelled = 0

        self._dropped = corrections.dropped
        self._by_dropped = Lookup(self._dropped[KEY])
        self._split = np.array(self._dropped["split"].to_pylist(), dtype=object)
        self._later = np.array(self._dropped["rows"].to_pylist(), dtype=object) == LATER
        self._matched = np.zeros(self._dropped.num_rows, dtype=bool)
        self.left_out = 0

        self._taken: set[int] = set()  # classes that rows had before they were corrected or left out
        self._present: set[int] = set()  # classes of the rows that are written

    @property
    def _is_empty(self) -> bool:
        return not self._labels.num_rows and not self._dropped.num_rows

    def apply(self, split: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the corrected rows of a split, given the rows for ``data/raw``."""
        if self._is_empty:
            yield from batches
            return
        for batch in batches:
            texts = [batch[name] for name in self._texts]
            keys = np.array(row_keys(texts).to_pylist(), dtype="S32")
            kept = pa.array(self._keep(split, keys))
            corrected = self._relabel(batch, keys)

            changed = self._codes(batch[LABELS]) != self._codes(corrected[LABELS])
            taken = pc.or_(pa.array(changed), pc.invert(kept))
            self._taken |= observed_classes(self._task, batch[LABELS].filter(taken))
            self._present |= observed_classes(self._task, corrected[LABELS].filter(kept))
            yield corrected.filter(kept)

    def _relabel(self, batch: pa.RecordBatch, keys: NDArray[np.bytes_]) -> pa.RecordBatch:
        """Return the rows of a batch with the labels of the label corrections."""
        rows, entries = self._by_label.find(keys)
        if not len(rows):
            return batch
        column = batch.schema.get_field_index(LABELS)
        labels = array_of(self._task, batch.column(column)).copy()
        current = self._task.codes(labels[rows])

        self._found[entries] = True
        applies = (current == self._before[entries]) & self._usable[entries]
        self._applied[entries[applies]] = True
        self._differs[entries[~applies & (current != self._after_codes[entries])]] = True

        labels[rows[applies]] = self._after[entries[applies]]
        self.relabelled += int(applies.sum())
        field = batch.schema.field(column)
        return batch.set_column(column, field, column_of(self._task, labels).cast(field.type))

    def _codes(self, labels: pa.Array) -> NDArray[Any]:
        """Return numbers that are equal for equal labels, of shape ``(rows,)``."""
        return self._task.codes(array_of(self._task, labels))

    def _keep(self, split: str, keys: NDArray[np.bytes_]) -> NDArray[np.bool_]:
        """Return a mask of the rows that are not left out, of shape ``(rows,)``."""
        rows, entries = self._by_dropped.find(keys)
        is_here = (self._split[entries] == "") | (self._split[entries] == split)
        rows = rows[is_here]
        entries = entries[is_here]

        # An entry for later rows spares the first row that has its texts.
        is_first = np.zeros(len(rows), dtype=bool)
        is_first[np.unique(entries, return_index=True)[1]] = True
        spared = self._later[entries] & is_first & ~self._matched[entries]
        self._matched[entries] = True

        kept = np.ones(len(keys), dtype=bool)
        kept[rows[~spared]] = False
        self.left_out += int((~kept).sum())
        return kept

    def emptied_classes(self) -> list[int]:
        """Return the ids of the classes that had rows and have none now.

        None is returned if fewer than two classes would be left.
        """
        if len(self._present - {UNLABELLED}) < 2:
            return []
        return sorted(self._taken - self._present - {UNLABELLED})

    def report(self) -> AppliedCorrections | None:
        """Print what was applied and what was not, and return it; ``None`` without corrections."""
        if self._is_empty:
            return None
        say(
            f"download: {_counted(self.relabelled, 'label')} corrected, {_counted(self.left_out, 'row')} left"
            " out, as data/corrections says."
        )

        unmatched = ~self._found
        stale = self._differs & ~self._applied
        done = self._found & ~self._applied & ~self._differs
        lost = "The source has lost these rows or changed their texts, or data.max_rows leaves them out."
        changed = "Their rows have another label now than the one that was corrected."
        remove = "The source has these labels by now: remove the lines."
        _warn(label_file(), unmatched, "match no row of this data", lost)
        _warn(label_file(), stale, "are not applied", changed)
        _warn(label_file(), done, "are not needed", remove)
        _warn(dropped_file(), ~self._matched, "match no row of this data", lost)

        hashes = {}
        for path in (label_file(), dropped_file()):
            if path.exists():
                hashes[path.name] = file_hash(path)
        return AppliedCorrections(
            labels=self.relabelled,
            dropped=self.left_out,
            unmatched=int(unmatched.sum() + (~self._matched).sum()),
            stale=int(stale.sum()),
            sha256=hashes,
        )


def _counted(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"


def _warn(path: Path, entries: NDArray[np.bool_], problem: str, hint: str) -> None:
    """Warn about the entries of a file of corrections that a mask has, if any."""
    number = entries.sum()
    if not number:
        return
    lines = [str(entry + FIRST_LINE) for entry in np.flatnonzero(entries)[:NAMED_LINES]]
    if number > NAMED_LINES:
        lines.append("...")
    say(
        f"download: warning: {number:,} of {len(entries):,} corrections {problem} ({path}, line"
        f" {', '.join(lines)}). {hint}"
    )
