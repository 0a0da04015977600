"""The columns of the user's files, which are read once, and how many rows the splits will have."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tuneline.core.params.data import DataParams, SplitParams
from tuneline.core.paths import SPLITS
from tuneline.core.runtime.errors import DataError
from tuneline.model.tasks import TASKS
from tuneline.operations.adoption.placement import by_split
from tuneline.rows.proposals.choice import ColumnChoice
from tuneline.rows.proposals.files import UnclearHeaderError, sniff
from tuneline.rows.proposals.profiles import NESTED, Column, count_columns
from tuneline.rows.reading.label_values import class_name, plain_text
from tuneline.rows.reading.rows import SHOWN_BAD_ROWS, BadRowPolicy, BadRows, check_columns
from tuneline.rows.reading.tables import FileTable, Input, open_table

MOST_BAD = 0.01
"""Largest fraction of the rows of a file that are left out, if the parameters allow no more."""


@dataclass(frozen=True)
class RowFile:
    """A source file, how it is written, its columns by name, and the rows that cannot be read."""

    source: Input
    columns: Mapping[str, Column]
    bad: BadRows

    @property
    def path(self) -> str:
        """The path, for messages."""
        return self.source.name

    @property
    def rows(self) -> int:
        """Number of rows that can be read."""
        return max((column.rows for column in self.columns.values()), default=0)

    def is_labelled(self, decision: ColumnChoice) -> bool:
        """Return True if it has the label columns, and a label in any row."""
        columns = [self.columns[name] for name in decision.label_columns if name in self.columns]
        has_all = len(columns) == len(decision.label_columns)
        return has_all and not all(column.is_unlabelled for column in columns)


def read_files(
    paths: Sequence[Path], header: bool | None, encoding: str | None, current: DataParams
) -> dict[str, RowFile]:
    """Read the file of each split, all of them with or all without a header, and of one layout.

    Args:
        paths: The files.
        header: True if the first line names the columns, as the user says; ``None`` to take what is detected.
        encoding: Their encoding; ``None`` to take what is detected.
        current: The current parameters, which may allow more bad rows.

    Raises:
        UnclearHeaderError: No file shows whether they have a header.
        DataError: The files have different layouts, or cannot be read.
    """
    policy = BadRowPolicy(max(current.max_bad_share, MOST_BAD))
    by_name = by_split(paths)
    sources: dict[str, Input] = {}
    doubts: dict[str, UnclearHeaderError] = {}
    for split, path in by_name.items():
        try:
            sources[split] = sniff(path, encoding=encoding, header=header)
        except UnclearHeaderError as error:
            doubts[split] = error
    if not sources:
        raise doubts["train"]
    # a file that shows it speaks for those that do not
    has_header = next(iter(sources.values())).columns is None
    for split in doubts:
        sources[split] = sniff(by_name[split], encoding=encoding, header=has_header)

    files = {}
    for split in by_name:
        files[split] = read_file(sources[split], policy)
        if _shared(files[split].source) != _shared(files["train"].source):
            problem = f"{files[split].path} has another layout than {files['train'].path}."
            raise DataError(problem, "Write all files in one format, delimiter and encoding.")
    return files


def _shared(file: Input) -> tuple[Any, ...]:
    """Return what all files have in common: how they are written, and whether they are packed."""
    has_header = file.columns is None
    return replace(file, path=None, columns=None), has_header, file.name.lower().endswith(".gz")


def read_file(source: Input, policy: BadRowPolicy) -> RowFile:
    """Read all columns of a file."""
    bad = BadRows(source.name, source.unit, policy)
    with open_table(source) as table:
        names = table.names()
        check_columns(names, names, source.name)
        file = RowFile(source, count_columns(names, _cells(table, names, bad)), bad)
    bad.check(file.rows)
    return file


def _cells(table: FileTable, names: Sequence[str], bad: BadRows) -> Iterator[dict[str, list[str | None]]]:
    """Yield the cells of all columns."""
    for batch in table.batches(names, bad):
        cells = {}
        for name, column in batch.columns.items():
            values = column.to_pylist() if isinstance(column, pa.Array) else column
            cells[name] = [_cell(value) for value in values]
        yield cells


def _cell(value: object) -> str | None:
    """Return a value as the text of a cell."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        return NESTED
    if isinstance(value, list):
        return NESTED + json.dumps(value, ensure_ascii=False, default=str)
    return plain_text(value)


@dataclass
class SplitRows:
    """The rows that the splits will have.

    Attributes:
        splits: Rows of each split that have text and label; of a divided file, about so many.
        classes: Rows of each class in all files; empty where a row has no single class.
        left_out: Rows without text or label, and rows that cannot be read.
        share_left_out: Largest fraction of the rows of a file that are left out, at most.
        first: Place and reason of the first rows that cannot be read.
    """

    splits: dict[str, int]
    classes: Counter[str] = field(default_factory=Counter)
    left_out: int = 0
    share_left_out: float = 0.0
    first: list[str] = field(default_factory=list)


def rows_of_splits(
    files: Mapping[str, RowFile], decision: ColumnChoice, division: SplitParams | None
) -> SplitRows:
    """Return the rows of each split, given the file of each split that has one."""
    rows = SplitRows(dict.fromkeys(SPLITS, 0))
    for split, file in files.items():
        left_out = file.bad.count + _incomplete(file, decision)
        total = file.rows + file.bad.count
        rows.splits[split] = total - left_out
        rows.left_out += left_out
        rows.share_left_out = max(rows.share_left_out, left_out / max(total, 1))
        for problem in file.bad.problems[:SHOWN_BAD_ROWS]:
            rows.first.append(f"{file.path}, {file.bad.place(problem)}: {problem.message}")
        if TASKS[decision.task].one_class:
            rows.classes += class_rows(file.columns[decision.label_column], decision.reading.names)
    if division is not None:
        train = rows.splits["train"]
        for split in SPLITS[1:]:
            if getattr(division, split):
                rows.splits[split] = round(getattr(division, split) * train)
                rows.splits["train"] -= rows.splits[split]
    return rows


def class_rows(column: Column, names: Sequence[str]) -> Counter[str]:
    """Return the number of rows of each class, as ``download`` reads them if it knows these names."""
    rows: Counter[str] = Counter()
    for cell, count in column.values.items():
        name = class_name(cell, known=names)
        if name is not None:
            rows[name] += count
    return rows


def _incomplete(file: RowFile, decision: ColumnChoice) -> int:
    """Return about how many rows lack all texts, or a label."""
    without_text = min(file.rows - file.columns[name].filled for name in decision.text_columns)
    label = file.columns[decision.label_columns[0]]
    without_label = round((1 - decision.reading.coverage) * file.rows)
    if TASKS[decision.task].one_class and not label.many:
        without_label = file.rows - class_rows(label, decision.reading.names).total()
    elif decision.sets is None or label.nested:  # an empty cell of text is the empty set
        without_label = max(without_label, file.rows - label.filled)
    return without_text + without_label
