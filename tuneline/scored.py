"""What flow ``score`` leaves behind: files of predictions, and the archived inputs that they were made for."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tuneline.errors import DataError
from tuneline.files.hashes import file_hash
from tuneline.inputs import Input, InputColumns, Row, kind_of, open_rows
from tuneline.params.loading import load_params
from tuneline.paths import PARAMS
from tuneline.readers.delimited import Dialect
from tuneline.readers.limits import Limits
from tuneline.records.scored import ScoredRecord, scored_record

UNLIMITED = Limits(cell=2**31 - 1, row_group=2**31 - 1, unpacked=sys.maxsize)
"""For an archived input: it was within the limits of the flow when it was scored, and has not changed since."""


@dataclass(frozen=True)
class ScoredFile:
    """A file of predictions, with its record."""

    path: Path
    record: ScoredRecord


def scored_files(outbox: Path) -> Iterator[ScoredFile]:
    """Yield the files of predictions, the latest first; of an input that was scored again, only the latest."""
    times = {}
    for path in outbox.glob("[!.]*.parquet"):
        with suppress(FileNotFoundError):  # flow `clean` removes old ones
            times[path] = path.stat().st_mtime_ns
    seen = set()
    for path in sorted(times, key=lambda path: (times[path], path), reverse=True):
        record = scored_record(path)
        if record is not None and record.sha256 not in seen:
            seen.add(record.sha256)
            yield ScoredFile(path, record)


@contextmanager
def open_archived(root: Path, scored: ScoredFile, columns: InputColumns) -> Iterator[Iterator[Row]]:
    """Open the archived input of a file of predictions: its rows that can be predicted.

    Args:
        root: The repository.
        scored: The file of predictions.
        columns: The columns to read.

    Raises:
        DataError: Here or while reading: the input was not archived, is missing, is another file, or has no such columns.
    """
    record = scored.record
    if record.archived is None:
        raise DataError(f"{scored.path}: its input was not archived.", "Set scoring.archive in conf/flows.yaml.")
    path = root / record.archived
    if not path.is_file() or file_hash(path) != record.sha256:
        raise DataError(f"{path} is missing, or is not the file that was scored.", "Restore it, or remove its predictions.")
    kind = kind_of(path, "--input-format")
    with open_rows(Input(path, kind, Dialect.default(kind == "tsv"), limits=UNLIMITED), columns) as source:
        yield (row for row in source.rows if isinstance(row, Row))


def find_texts(root: Path, outbox: Path, id_column: str, ids: pa.Array) -> pa.Table:
    """Find the texts that were scored under some ids. Of an id that was scored with several texts, those of the latest file count.

    Archived inputs without the id column are left out. The files are read one after the other, the latest first, until all ids are found.

    Args:
        root: The repository; its ``params.yaml`` names the text columns.
        outbox: Folder of the files of predictions, relative to ``root`` or absolute.
        id_column: Column of the ids.
        ids: Ids of any type; ``7``, ``7.0`` and ``"7"`` are the same.

    Returns:
        The id column and the text columns: one row for each id that was found, in the order of ``ids`` and with their type.
    """
    texts = tuple(load_params(root / PARAMS).data.text_columns)
    positions = {name: position for position, name in reversed(list(enumerate(map(id_text, ids.to_pylist())))) if name is not None}
    found: dict[int, Sequence[str]] = {}
    for scored in scored_files(root / outbox):
        if len(found) == len(positions):
            break
        try:
            with open_archived(root, scored, InputColumns(texts, (id_column,))) as rows:
                for row in rows:
                    position = positions.get(id_text(row.kept[id_column]) or "")
                    if position is not None:
                        found.setdefault(position, row.texts)
        except DataError:
            continue
    order = sorted(found)
    columns = zip(*(found[position] for position in order), strict=True) if order else [()] * len(texts)
    values = {name: pa.array(column, pa.string()) for name, column in zip(texts, columns, strict=True)}
    return pa.table({id_column: ids.take(pa.array(order, pa.int64())), **values})


def id_text(value: Any) -> str | None:
    """Return an id as text; ``None`` if there is none."""
    if value is None or value != value:  # NaN differs from itself  # noqa: PLR0124
        return None
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip() or None
