"""Files under ``data/source/`` as a source: one per split, named after it, a folder of batches, or both."""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from stages.download.bad_values import BadRowError, BadValues
from stages.download.columnar import read_parquet
from stages.download.remote import RemoteFolder
from stages.download.slices import source_splits
from stages.download.source import GROUP, LABEL, POSITION, Cursor, SourceColumns, SourceFile, SourceSplit, batches_of
from stages.download.values import JsonLabels, group_values, json_group, label_values
from tuneline.errors import DataError
from tuneline.params.data import DataParams
from tuneline.paths import SOURCE
from tuneline.readers.bad_rows import BadRows
from tuneline.readers.delimited import DelimitedReader, Dialect
from tuneline.readers.jsonl import read_jsonl
from tuneline.readers.limits import Limits
from tuneline.readers.rows import RowProblem, listed, text_problem
from tuneline.readers.source_files import choose_files, find_files
from tuneline.readers.special_files import not_a_file
from tuneline.readers.text import open_text
from tuneline.readers.urls import is_url


class Files:
    """A folder with the files of each split: ``train.csv``, ``validation.jsonl.gz``, batches in ``train/``, in any combination."""

    def __init__(self, params: DataParams) -> None:
        """Find the files of the splits that ``data.splits`` names, of the days that ``data.as_of`` and ``data.last_days`` leave.

        Raises:
            DataError: The folder does not exist or is not under ``data/source/``; a split has no file, or more than one of its name;
                or none of these days.
        """
        self.params = params.files
        self.limits = Limits.of(self.params.max_cell_characters, self.params.max_row_group_mb, self.params.max_unpacked_mb)
        names = dict.fromkeys(name for split, spec in params.source_specs.items() for name in source_splits(split, spec))
        self.remote = RemoteFolder.fetch(params.path, names) if params.path and is_url(params.path) else None
        self.folder = self.remote.folder if self.remote else _folder(params.path)
        self.splits = {name: find_files(self.folder, name) for name in names}
        self.chosen = choose_files(self.splits, params.as_of, params.last_days)

    def read(self, split: str, columns: SourceColumns) -> SourceSplit:
        """Open the files of one split.

        Raises:
            DataError: One cannot be used.
        """
        files = [self._open(path, columns) for path in self.chosen[split]]
        return SourceSplit.of(files[0]) if len(files) == 1 else SourceSplit(f"{self.folder / split} ({len(files)} files)", files)

    def _open(self, path: Path, columns: SourceColumns) -> SourceFile:
        kind, params = Path(path.name.removesuffix(".gz")).suffix, self.params
        if kind == ".parquet":
            return read_parquet(path, columns, self.limits)
        if kind == ".jsonl":
            return read_json(path, params.encoding, columns, self.limits)
        dialect = Dialect.default(kind == ".tsv", params.delimiter, params.quoting, params.columns)
        return read_delimited(path, params.encoding, dialect, columns, self.limits)

    @property
    def inputs(self) -> list[Path]:
        """The files that are read."""
        return [path for chosen in self.chosen.values() for path in chosen]

    def provenance(self, rows: Mapping[str, int], /) -> dict[str, Any]:
        """Return the files that were read, and the rows of each batch; DVC tracks their content."""
        files, batches = {}, {}
        for split, found in self.splits.items():
            chosen = self.chosen[split]
            if found.file in chosen:
                files[split] = found.file.as_posix()
            if found.batches:
                batches[split] = {path.as_posix(): rows.get(str(path), 0) for path in chosen if path != found.file}
        remote = None if self.remote is None else self.remote.provenance(self.inputs)
        return {"files": files, "batches": batches or None, "remote": remote}


def _folder(path: str | None) -> Path:
    given = Path(path or ".")
    folder = given if given.parts[:2] == SOURCE.parts else SOURCE / given
    if given.is_absolute() or ".." in given.parts:
        raise DataError(
            f"data.path: {path!r} is outside {SOURCE}/.",
            f"Put the files under {SOURCE}/: DVC tracks that folder and reruns the stage when a file in it changes.",
        )
    if not folder.is_dir():
        if os.path.lexists(folder) and (problem := not_a_file(folder)):
            raise DataError(f"data.path: {folder} {problem}; a folder is expected.", "Move it away, or name another folder.")
        present = sorted(entry.name for entry in SOURCE.iterdir() if entry.is_dir()) if SOURCE.is_dir() else []
        hint = f"It can be: {listed(present)}." if present else f"{SOURCE}/ has no folders; set data.path to null to read {SOURCE}/ itself."
        raise DataError(f"data.path: {folder} is not a folder.", hint)
    return folder


def read_delimited(path: Path, encoding: str, dialect: Dialect, columns: SourceColumns, limits: Limits) -> SourceFile:
    """Open a CSV or TSV file; ``position`` is the line on which a row starts.

    Raises:
        DataError: The file cannot be read, or one of its rows cannot and bad rows are an error; while reading.
    """
    bad = columns.bad_rows(str(path), "line")

    def batches(cursor: Cursor) -> Iterator[pa.RecordBatch]:
        return _delimited_batches(_delimited_rows(path, encoding, dialect, columns, limits, bad=bad, cursor=cursor), columns, bad)

    return SourceFile(bad, batches)


def _delimited_batches(rows: Iterator[tuple[Any, ...]], columns: SourceColumns, bad: BadRows) -> Iterator[pa.RecordBatch]:
    as_text = columns.schema.set(columns.schema.get_field_index(LABEL), pa.field(LABEL, pa.string()))
    for batch in batches_of(rows, as_text):
        texts = batch.columns[: len(columns.text_columns)]
        read = {**dict(zip(columns.text_columns, texts, strict=True)), columns.label_column: batch[LABEL]}
        values = BadValues(bad, batch[POSITION], read)
        groups = [group_values(batch[GROUP], values.place(column)) for column in columns.grouped]
        labels = label_values(batch[LABEL], columns.regression, values, columns.label_column)
        yield values.without(pa.record_batch([*texts, *groups, labels, batch[POSITION]], schema=columns.schema))


def _delimited_rows(
    path: Path, encoding: str, dialect: Dialect, columns: SourceColumns, limits: Limits, *, bad: BadRows, cursor: Cursor
) -> Iterator[tuple[Any, ...]]:
    with open_text(path, encoding, limits=limits) as lines:
        reader = DelimitedReader(lines, dialect)
        has_label = columns.check(reader.names, str(path), reader.hint)
        cells = [reader.names.index(name) for name in (*columns.text_columns, *columns.grouped)]
        label = reader.names.index(columns.label_column) if has_label else None
        for line, fields in reader:
            if line <= cursor.position:
                continue
            cursor.position = line
            if isinstance(fields, RowProblem):
                bad.add(fields)
            else:
                yield (*[fields[cell] for cell in cells], None if label is None else fields[label], line)


def read_json(path: Path, encoding: str, columns: SourceColumns, limits: Limits) -> SourceFile:
    """Open a JSON Lines file; ``position`` is the line.

    Raises:
        DataError: The file cannot be read, or one of its rows cannot and bad rows are an error; while reading.
    """
    bad = columns.bad_rows(str(path), "line")

    def batches(cursor: Cursor) -> Iterator[pa.RecordBatch]:
        return batches_of(_json_rows(path, encoding, columns, limits, bad=bad, cursor=cursor), columns.schema)

    return SourceFile(bad, batches)


def _json_rows(
    path: Path, encoding: str, columns: SourceColumns, limits: Limits, *, bad: BadRows, cursor: Cursor
) -> Iterator[tuple[Any, ...]]:
    labels = JsonLabels(columns.label_column, columns.regression)
    keys = _RequiredKeys(path, columns)
    with open_text(path, encoding, limits=limits) as lines:
        for line, record in read_jsonl(lines):
            is_new = line > cursor.position  # the rows before tell which keys and which type of labels the file has
            cursor.position = max(cursor.position, line)
            try:
                row = _json_row(line, record, columns, labels, keys)
            except BadRowError as error:
                if is_new:
                    bad.add(dataclasses.replace(error.problem, content=lines.content))
                continue
            if is_new:
                yield row
    keys.check_end()


def _json_row(
    line: int, record: dict[str, Any] | RowProblem, columns: SourceColumns, labels: JsonLabels, keys: "_RequiredKeys"
) -> tuple[Any, ...]:
    """Return the values of a row.

    Raises:
        BadRowError: It cannot be used.
        DataError: It has not all the keys that it needs.
    """
    if isinstance(record, RowProblem):
        raise BadRowError(record)
    keys.check(record, line)
    texts = [record.get(name) for name in columns.text_columns]
    for name, text in zip(columns.text_columns, texts, strict=True):
        if text is not None and (problem := text_problem(text, name)):
            raise BadRowError(RowProblem(line, problem, "Put text in quotes, correct the escape sequence, or name another column."))
    groups = [json_group(record.get(name), line, name) for name in columns.grouped]
    return (*texts, *groups, labels.convert(record.get(columns.label_column), line), line)


class _RequiredKeys:
    """Checks that the objects of a file have the keys that are read: each of them, or at least one where a value may be missing."""

    def __init__(self, path: Path, columns: SourceColumns) -> None:
        self.path = path
        self.columns = columns
        texts_and_label = {*columns.text_columns, *([] if columns.label_optional else [columns.label_column])}
        self.everywhere = set() if columns.policy.action == "skip" else texts_and_label
        self.unseen = texts_and_label | set(columns.grouped)
        self.present: dict[str, None] = {}

    def check(self, record: dict[str, Any], line: int) -> None:
        if not self.everywhere <= record.keys():
            self.columns.check(list(record), f"{self.path}, line {line:,}")
        if self.unseen:
            self.unseen -= record.keys()
            self.present |= dict.fromkeys(record)

    def check_end(self) -> None:
        if self.unseen and self.present:
            self.columns.check(list(self.present), str(self.path))
