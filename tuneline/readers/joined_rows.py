"""Rows of the same texts as one row, whose label is the set of all their labels.

A file with one row for each pair of text and label may have the rows of a text anywhere. The rows are copied
to a temporary file, each text once; memory holds a hash of each text, and its labels: about 350 bytes for a
text.
"""

import hashlib
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from tuneline.runtime.disk_errors import cannot_write

DIGEST = 16
"""Bytes of the hash of a text: so many that no two texts have the same."""
NO_TEXT = b"\xff" * 8
"""A length that no text has."""


def join_rows(
    batches: Iterable[pa.RecordBatch], texts: Sequence[str], label: str
) -> Iterator[pa.RecordBatch]:
    """Yield the first row of each text, in their order, with the labels of all rows of the text.

    A row without a label, or without any text, is yielded as it is: each of them is reported.

    Args:
        batches: Rows with columns of text, and with sets of names.
        texts: Names of the columns whose values are the same in the rows that become one.
        label: Name of the column of sets.

    Raises:
        DiskError: The folder of temporary files is full.
    """
    sets = JoinedSets()
    with tempfile.TemporaryFile() as file:
        writer = None
        for batch in batches:
            is_first = sets.add([batch[name] for name in texts], batch[label])
            kept = batch.filter(is_first)
            try:
                if writer is None:
                    writer = pa.ipc.new_stream(file, batch.schema)
                writer.write_batch(kept)
            except OSError as error:
                raise cannot_write(Path(tempfile.gettempdir()), error) from error
        if writer is None:
            return
        writer.close()

        file.seek(0)
        first = 0
        labels = sets.joined()
        for batch in pa.ipc.open_stream(file):
            joined = labels.slice(first, batch.num_rows)
            first += batch.num_rows
            yield batch.set_column(batch.schema.get_field_index(label), batch.schema.field(label), joined)


class JoinedSets:
    """The sets of labels of texts, in the order of the first row of each text."""

    def __init__(self) -> None:
        self._position_of: dict[bytes, int] = {}
        self._count = 0
        self._missing: list[int] = []
        self._codes: dict[str, int] = {}
        # one entry for each label of each row
        self._positions = array("q")
        self._labels = array("i")

    def add(self, texts: Sequence[pa.Array], sets: pa.Array) -> pa.BooleanArray:
        """Add rows, and return which of them are the first of their text."""
        is_first = np.zeros(len(sets), dtype=bool)
        columns = [column.to_pylist() for column in texts]
        for row, names in enumerate(sets.to_pylist()):
            cells = [column[row] for column in columns]
            position = self._count
            if names is None:
                self._missing.append(position)
            elif any(text and text.strip() for text in cells):
                position = self._position_of.setdefault(_digest(cells), position)
            is_first[row] = position == self._count
            self._count += int(is_first[row])
            for name in names or ():
                self._positions.append(position)
                self._labels.append(self._codes.setdefault(name, len(self._codes)))
        return pa.array(is_first)

    def joined(self) -> pa.ListArray:
        """Return the set of each text."""
        # codes in the order of the names, so that sorted codes are sorted names
        names = sorted(self._codes)
        order = np.empty(len(names), dtype=np.int64)
        for rank, name in enumerate(names):
            order[self._codes[name]] = rank

        # distinct pairs of text and name
        size = max(len(names), 1)
        pairs = np.frombuffer(self._positions, np.int64) * size
        pairs += order[np.frombuffer(self._labels, np.int32)]
        pairs = np.unique(pairs)

        counts = np.bincount(pairs // size, minlength=self._count)
        offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
        missing = np.zeros(self._count, dtype=bool)
        missing[self._missing] = True
        values = pa.array(names, pa.string()).take(pa.array(pairs % size))
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(missing))


def _digest(cells: Sequence[str | None]) -> bytes:
    """Return a hash of the texts of a row, each with its length, so that their ends count."""
    digest = hashlib.blake2b(digest_size=DIGEST)
    for text in cells:
        if text is None:
            digest.update(NO_TEXT)
            continue
        content = text.encode()
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.digest()
