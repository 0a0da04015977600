"""The new rows that contradict the data: a row with the same key or texts has another label.

A person decides which label is right.

They are left out, counted in ``data/ingested.json``, and listed in a review that ``tuneline labels apply``
reads.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from flows.ingestion.known import NO_HASH, BatchColumns, DataLayout, RowHashes, RowStatus, known_rows
from tuneline.analysis.corrections import row_keys
from tuneline.params.data import DataParams, FilesParams
from tuneline.project.label_review import Suspect, write_review

LISTED = 10_000
"""Contradicting rows of a run that are listed; all are counted."""


@dataclass(frozen=True)
class Contradiction:
    """A new row, and the row of the data that has another label.

    Without one, the other row is in a file of the same run that failed.

    Attributes:
        source: The name of its source.
        place: File and line, or row.
        label: The label of the new row.
        known: Texts and label of the row in the data, as the data have them.
    """

    source: str
    place: str
    texts: tuple[str, ...]
    label: str
    known: tuple[tuple[str, ...], str] | None = None


@dataclass
class Contradictions:
    """Collects the contradicting rows of a run."""

    columns: BatchColumns
    _rows: list[tuple[Contradiction, int, int]] = field(default_factory=list)

    def add(
        self,
        source: str,
        staged: Path,
        statuses: NDArray[np.int8],
        hashes: RowHashes,
        place: Callable[[int], str],
    ) -> None:
        """Add those of a file that was staged; ``place`` names the place of a row by its position in the file."""
        columns = self.columns
        positions = np.flatnonzero(statuses == RowStatus.CONFLICT)[: LISTED - len(self._rows)]
        if not len(positions):
            return
        table = pq.read_table(staged, columns=[*columns.texts, columns.label]).take(pa.array(positions))
        texts = zip(*(table[name].to_pylist() for name in columns.texts), strict=True)
        labels = map(str, table[columns.label].to_pylist())
        for position, row, label in zip(positions.tolist(), texts, labels, strict=True):
            contradiction = Contradiction(source, place(position), row, label)
            self._rows.append((contradiction, int(hashes.texts[position]), int(hashes.keys[position])))

    def resolved(self, root: Path, layout: DataLayout, files: FilesParams) -> list[Contradiction]:
        """Return the rows with those of the data in a checkout that they contradict, which are read once more for that."""
        if not self._rows:
            return []
        by_text = dict.fromkeys(text for _, text, _ in self._rows)
        by_key = dict.fromkeys(key for *_, key in self._rows if key != NO_HASH)
        known = _find(by_text, by_key, _batches(root, layout, self.columns, files))
        return [
            Contradiction(
                row.source,
                row.place,
                row.texts,
                row.label,
                known.get(("text", text)) or known.get(("key", key)),
            )
            for row, text, key in self._rows
        ]


def write_contradictions(path: Path, data: DataParams, contradictions: Sequence[Contradiction]) -> None:
    """Write the review: each row as the data have it, with the label that the source gives as the proposed one."""
    suspects = []
    for contradiction in contradictions:
        texts, label = contradiction.known or (contradiction.texts, "")
        (key,) = row_keys([pa.array([text], pa.string()) for text in texts]).to_pylist()
        proposed = _class_name(data, contradiction.label)
        suspects.append(
            Suspect(
                key,
                "",
                texts,
                _class_name(data, label),
                proposed,
                None,
                f"{contradiction.source}: {contradiction.place}",
            )
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_review(path, data, suspects)


def _class_name(data: DataParams, label: str) -> str:
    """Return the name of a class that files may have as its id, as stage ``download`` understands it."""
    names = [str(name) for name in data.label_names or ()]
    is_id = label not in names and label.isdecimal() and int(label) < len(names)
    return names[int(label)] if is_id else label


KnownRows = tuple[list[pa.Array], pa.Array, pa.Array | None]
"""Texts, labels and keys of rows of the data."""


def _batches(
    root: Path, layout: DataLayout, columns: BatchColumns, files: FilesParams
) -> Iterator[KnownRows]:
    for split in (layout.split, *layout.held):
        for path in layout.files(root, split):
            yield from known_rows(path, columns, files)


def _find(
    by_text: Iterable[int], by_key: Iterable[int], batches: Iterable[KnownRows]
) -> dict[tuple[str, int], tuple[tuple[str, ...], str]]:
    """Return texts and label of the first row of the data with each hash: of its texts, or of its key."""
    required = {"text": np.array(list(by_text), np.uint64), "key": np.array(list(by_key), np.uint64)}
    rows: dict[tuple[str, int], tuple[tuple[str, ...], str]] = {}
    for texts, labels, keys in batches:
        hashes = RowHashes.of(texts, labels, keys)
        for name, values in (("text", hashes.texts), ("key", hashes.keys)):
            for row in np.flatnonzero(np.isin(values, required[name])).tolist():
                given = tuple(text[row].as_py() for text in texts)
                rows.setdefault((name, int(values[row])), (given, str(labels[row].as_py())))
    return rows


def identity_of(hashes: Sequence[RowHashes], statuses: Sequence[NDArray[np.int8]]) -> str | None:
    """Return a hash of the contradicting rows of a source, whatever their order; ``None`` if there are none."""
    pairs = {
        (int(file_hashes.texts[row]), int(file_hashes.labels[row]))
        for file_hashes, status in zip(hashes, statuses, strict=True)
        for row in np.flatnonzero(status == RowStatus.CONFLICT).tolist()
    }
    return hashlib.sha256(repr(sorted(pairs)).encode()).hexdigest()[:16] if pairs else None
