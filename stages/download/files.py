"""Files under ``data/source/`` as a source: one file per split, named after it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from stages.download.columnar import read_parquet
from stages.download.source import GROUP, LABEL, POSITION, SourceColumns, SourceSplit, batches_of
from stages.download.values import JsonLabels, group_values, json_group, label_values
from tuneline.errors import DataError
from tuneline.params.data import FilesParams
from tuneline.paths import SOURCE
from tuneline.readers.delimited import DelimitedReader, Dialect
from tuneline.readers.jsonl import read_jsonl
from tuneline.readers.limits import Limits
from tuneline.readers.rows import ENDINGS, RowProblem, listed, text_problem
from tuneline.readers.text import open_text


class Files:
    """A folder with one file per split: ``train.csv``, ``validation.jsonl.gz``, ``test.parquet``, in any combination."""

    def __init__(self, path: str | None, params: FilesParams) -> None:
        """Find the folder.

        Raises:
            DataError: It does not exist, or is not under ``data/source/``.
        """
        self.folder = _folder(path)
        self.params = params
        self.limits = Limits.of(params.max_cell_characters, params.max_row_group_mb, params.max_unpacked_mb)
        self.read_from: dict[str, str] = {}

    def read(self, split: str, columns: SourceColumns) -> SourceSplit:
        """Open the file of one split.

        Raises:
            DataError: There is no such file, more than one, or one that cannot be used.
        """
        path = self._file(split)
        self.read_from[split] = path.as_posix()
        kind = path.name.removeprefix(split).removesuffix(".gz")
        if kind == ".parquet":
            batches, names = read_parquet(path, columns, self.limits)
            return SourceSplit(str(path), "row", batches, names)
        if kind == ".jsonl":
            return SourceSplit(str(path), "line", json_batches(path, self.params.encoding, columns, self.limits))
        params = self.params
        dialect = Dialect.default(kind == ".tsv", params.delimiter, params.quoting, params.columns)
        return SourceSplit(str(path), "line", delimited_batches(path, params.encoding, dialect, columns, self.limits))

    def _file(self, split: str) -> Path:
        found = [path for ending in ENDINGS if (path := self.folder / f"{split}{ending}").is_file()]
        if len(found) > 1:
            raise DataError(f"{self.folder}: split {split!r} has {len(found)} files: {listed(path.name for path in found)}.", "Keep one.")
        if found:
            return found[0]
        present = sorted(path.name for path in self.folder.iterdir() if path.is_file() and not path.name.startswith("."))
        raise DataError(f"{self.folder} has no file for split {split!r}.", self._hint(split, present))

    def _hint(self, split: str, present: list[str]) -> str:
        expected = f"Expected {split}.csv, .tsv, .jsonl or .parquet, plain or .gz"
        other = next((name for name in present if name.partition(".")[0] == split), None)
        if other is not None:
            return f"{expected}; {other} has another suffix."
        remedy = f"Rename a file, name another in data.splits.{split}, or divide one with data.split."
        return f"{expected}; the folder has {listed(present) or 'no files'}. {remedy}"

    def provenance(self) -> dict[str, Any]:
        """Return the files that were read; DVC tracks their content."""
        return {"files": self.read_from}


def _folder(path: str | None) -> Path:
    given = Path(path or ".")
    folder = given if given.parts[:2] == SOURCE.parts else SOURCE / given
    if given.is_absolute() or ".." in given.parts:
        raise DataError(
            f"data.path: {path!r} is outside {SOURCE}/.",
            f"Put the files under {SOURCE}/: DVC tracks that folder and reruns the stage when a file in it changes.",
        )
    if not folder.is_dir():
        present = sorted(entry.name for entry in SOURCE.iterdir() if entry.is_dir()) if SOURCE.is_dir() else []
        hint = f"It can be: {listed(present)}." if present else f"{SOURCE}/ has no folders; set data.path to null to read {SOURCE}/ itself."
        raise DataError(f"data.path: {folder} is not a folder.", hint)
    return folder


def delimited_batches(path: Path, encoding: str, dialect: Dialect, columns: SourceColumns, limits: Limits) -> Iterator[pa.RecordBatch]:
    """Read a CSV or TSV file in batches of ``columns.schema``; ``position`` is the line on which a row starts.

    Raises:
        DataError: The file or one of its rows cannot be read; while reading.
    """

    def where(positions: list[int], column: str, row: int) -> str:
        return f"{path}, line {positions[row]:,}, column {column!r}"

    as_text = columns.schema.set(columns.schema.get_field_index(LABEL), pa.field(LABEL, pa.string()))
    for batch in batches_of(_delimited_rows(path, encoding, dialect, columns, limits), as_text):
        place = partial(where, batch[POSITION].to_pylist())
        texts = batch.columns[: len(columns.text_columns)]
        groups = [group_values(batch[GROUP], partial(place, column)) for column in columns.grouped]
        labels = label_values(batch[LABEL], columns.regression, partial(place, columns.label_column))
        yield pa.record_batch([*texts, *groups, labels, batch[POSITION]], schema=columns.schema)


def _delimited_rows(path: Path, encoding: str, dialect: Dialect, columns: SourceColumns, limits: Limits) -> Iterator[tuple[Any, ...]]:
    with open_text(path, encoding, limits=limits) as lines:
        reader = DelimitedReader(lines, dialect)
        has_label = columns.check(reader.names, str(path), reader.hint)
        cells = [reader.names.index(name) for name in (*columns.text_columns, *columns.grouped)]
        label = reader.names.index(columns.label_column) if has_label else None
        for line, fields in reader:
            if isinstance(fields, RowProblem):
                raise _error(path, fields)
            yield (*[fields[cell] for cell in cells], None if label is None else fields[label], line)


def json_batches(path: Path, encoding: str, columns: SourceColumns, limits: Limits) -> Iterator[pa.RecordBatch]:
    """Read a JSON Lines file in batches of ``columns.schema``; ``position`` is the line.

    Raises:
        DataError: The file or one of its rows cannot be read; while reading.
    """
    return batches_of(_json_rows(path, encoding, columns, limits), columns.schema)


def _json_rows(path: Path, encoding: str, columns: SourceColumns, limits: Limits) -> Iterator[tuple[Any, ...]]:
    labels = JsonLabels(str(path), columns.label_column, columns.regression)
    keys = _RequiredKeys(path, columns)
    with open_text(path, encoding, limits=limits) as lines:
        for line, record in read_jsonl(lines):
            if isinstance(record, RowProblem):
                raise _error(path, record)
            where = f"{path}, line {line:,}"
            keys.check(record, where)
            texts = [record.get(name) for name in columns.text_columns]
            for name, text in zip(columns.text_columns, texts, strict=True):
                if text is not None and (problem := text_problem(text, name)):
                    raise DataError(f"{where}: {problem}.", "Put text in quotes, correct the escape sequence, or name another column.")
            groups = [json_group(record.get(name), f"{where}, column {name!r}") for name in columns.grouped]
            yield (*texts, *groups, labels.convert(record.get(columns.label_column), line), line)
    keys.check_end()


class _RequiredKeys:
    """Checks that the objects of a file have the keys that are read: each of them, or at least one where a value may be missing."""

    def __init__(self, path: Path, columns: SourceColumns) -> None:
        self.path = path
        self.columns = columns
        texts_and_label = {*columns.text_columns, *([] if columns.label_optional else [columns.label_column])}
        self.everywhere = set() if columns.incomplete else texts_and_label
        self.unseen = texts_and_label | set(columns.grouped)
        self.present: dict[str, None] = {}

    def check(self, record: dict[str, Any], where: str) -> None:
        if not self.everywhere <= record.keys():
            self.columns.check(list(record), where)
        if self.unseen:
            self.unseen -= record.keys()
            self.present |= dict.fromkeys(record)

    def check_end(self) -> None:
        if self.unseen and self.present:
            self.columns.check(list(self.present), str(self.path))


def _error(path: Path, problem: RowProblem) -> DataError:
    return DataError(f"{path}, line {problem.line:,}: {problem.message}.", problem.hint)
