"""The new rows that contradict the data: a row with the same key or texts has another label.

A person decides which label is right.

They are left out, counted in ``data/ingested.json``, and listed in a review that ``tuneline labels apply``
reads.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from flows.ingestion.known import NO_HASH, BatchColumns, DataLayout, RowHashes, RowStatus, known_rows
from tuneline.analysis.corrections import row_keys
from tuneline.labels.label_review import Suspect, write_review
from tuneline.params.data import DataParams, FilesParams
from tuneline.tasks import Task
from tuneline.tasks.columns import label_texts
from tuneline.words.label_texts import staged_text

LISTED = 10_000
"""Contradicting rows of a run that are listed; all are counted."""


@dataclass(frozen=True)
class Contradiction:
    """A new row that contradicts the data.

    Attributes:
        source: Name of the source of the row.
        place: File and line, or row.
        texts: Texts of the new row.
        label: Label of the new row.
        row_of_data: Texts and label of the row in the data, as the data have them; ``None`` if the new row
            contradicts a row of another file of the same run.
    """

    source: str
    place: str
    texts: tuple[str, ...]
    label: str
    row_of_data: tuple[tuple[str, ...], str] | None = None


class _Row(NamedTuple):
    """A new row that contradicts the data, and the hashes of its texts and of its key."""

    contradiction: Contradiction
    text: int
    key: int


@dataclass
class Contradictions:
    """Collects the contradicting rows of a run; the task says how their labels are written."""

    columns: BatchColumns
    task: Task
    _rows: list[_Row] = field(default_factory=list)

    def add(
        self,
        source: str,
        staged: Path,
        statuses: NDArray[np.int8],
        hashes: RowHashes,
        place: Callable[[int], str],
    ) -> None:
        """Add the contradicting rows of a staged file.

        ``place`` names the place of a row by its position in the file.
        """
        columns = self.columns
        # All are counted, but no person reads more than so many.
        positions = np.flatnonzero(statuses == RowStatus.CONFLICT)[: LISTED - len(self._rows)]
        if not len(positions):
            return

        table = pq.read_table(staged, columns=[*columns.texts, columns.label]).take(pa.array(positions))
        text_columns = [table[name].to_pylist() for name in columns.texts]
        texts = zip(*text_columns, strict=True)
        labels = table[columns.label].to_pylist()
        for position, row_texts, label in zip(positions.tolist(), texts, labels, strict=True):
            contradiction = Contradiction(source, place(position), row_texts, staged_text(self.task, label))
            self._rows.append(_Row(contradiction, int(hashes.texts[position]), int(hashes.keys[position])))

    def resolved(self, root: Path, layout: DataLayout, files: FilesParams) -> list[Contradiction]:
        """Return the contradicting rows with the rows of the data that they contradict.

        The data in the checkout ``root`` is read once more for that.
        """
        if not self._rows:
            return []

        rows_of_data = _find(self._rows, _batches(root, layout, self.columns, files), self.task)
        resolved = []
        for row in self._rows:
            row_of_data = rows_of_data.get(("text", row.text)) or rows_of_data.get(("key", row.key))
            resolved.append(replace(row.contradiction, row_of_data=row_of_data))
        return resolved


def write_contradictions(path: Path, data: DataParams, contradictions: Sequence[Contradiction]) -> None:
    """Write the review: each row as the data have it, and as the proposed label the one of the source."""
    suspects = []
    for contradiction in contradictions:
        # What contradicts a row of the same run has no label in the data.
        texts, label = contradiction.row_of_data or (contradiction.texts, "")
        (key,) = row_keys([pa.array([text], pa.string()) for text in texts]).to_pylist()
        suspects.append(
            Suspect(
                key,
                "",
                texts,
                _class_name(data, label),
                _class_name(data, contradiction.label),
                None,
                f"{contradiction.source}: {contradiction.place}",
            )
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_review(path, data, suspects)


def _class_name(data: DataParams, label: str) -> str:
    """Return the name of a class that files may have as its id, as stage ``download`` understands it."""
    names = [str(name) for name in data.label_names or ()]
    if label not in names and label.isdecimal() and int(label) < len(names):
        return names[int(label)]
    return label


KnownRows = tuple[list[pa.Array], pa.Array, pa.Array | None]
"""Texts, labels and keys of rows of the data."""


def _batches(
    root: Path, layout: DataLayout, columns: BatchColumns, files: FilesParams
) -> Iterator[KnownRows]:
    """Yield the rows of all splits of the data, batch by batch."""
    for split in layout.splits:
        for path in layout.files(root, split):
            yield from known_rows(path, columns, files)


def _find(
    contradicting: Sequence[_Row], batches: Iterable[KnownRows], task: Task
) -> dict[tuple[str, int], tuple[tuple[str, ...], str]]:
    """Return texts and label of the first row of the data with each hash: of its texts, or of its key."""
    required_texts = np.array([row.text for row in contradicting], np.uint64)
    # Rows without a key are not equal.
    required_keys = np.array([row.key for row in contradicting if row.key != NO_HASH], np.uint64)
    rows: dict[tuple[str, int], tuple[tuple[str, ...], str]] = {}
    for texts, labels, keys in batches:
        hashes = RowHashes.of(texts, label_texts(task, labels), keys)
        for name, values, required in (
            ("text", hashes.texts, required_texts),
            ("key", hashes.keys, required_keys),
        ):
            for row in np.flatnonzero(np.isin(values, required)).tolist():
                row_texts = tuple(text[row].as_py() for text in texts)
                label = staged_text(task, labels[row].as_py())
                rows.setdefault((name, int(values[row])), (row_texts, label))
    return rows


def identity_of(hashes: Sequence[RowHashes], statuses: Sequence[NDArray[np.int8]]) -> str | None:
    """Return a hash of the contradicting rows of a source, in any order; ``None`` if there are none."""
    pairs = set()
    for file_hashes, file_statuses in zip(hashes, statuses, strict=True):
        for row in np.flatnonzero(file_statuses == RowStatus.CONFLICT).tolist():
            pairs.add((int(file_hashes.texts[row]), int(file_hashes.labels[row])))
    if not pairs:
        return None
    return hashlib.sha256(repr(sorted(pairs)).encode()).hexdigest()[:16]
