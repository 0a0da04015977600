"""The labelled rows of a file: texts, labels as the model knows them, and where each row is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.cli.init.layout import detect_layout
from tuneline.cli.init.planning import open_rows
from tuneline.cli.predict.streaming import Report
from tuneline.core.errors import DataError
from tuneline.readers.inputs import open_table
from tuneline.readers.labelled import LABEL, POSITION, LabelledColumns, has_text, labelled_rows, written_classes
from tuneline.readers.rows import BadRowPolicy, BadRows, RowProblem, check_columns, listed


@dataclass(frozen=True)
class FileOptions:
    """Names of the columns, what to do about bad rows, and the encoding (``None``: detected)."""

    texts: tuple[str, ...]
    label: str
    by: tuple[str, ...]
    bad_rows: BadRowPolicy
    encoding: str | None = None


@dataclass(frozen=True)
class LabelledFile:
    """The rows of a file, at least one.

    Attributes:
        rows: The columns ``text_0``, ..., ``other_0``, ... (those that ``FileOptions.by`` names) and ``position``: the line of each row;
            its row in a Parquet file.
        labels: Class ids or numbers, of shape ``(rows,)``.
        unit: What positions count: ``line`` or ``row``.
        left_out: Number of bad rows.
    """

    path: Path
    options: FileOptions
    rows: pa.RecordBatch
    labels: NDArray[Any]
    unit: str
    left_out: int

    @property
    def texts(self) -> dict[str, pa.Array]:
        """The text columns by name."""
        return {name: self.rows[f"text_{index}"] for index, name in enumerate(self.options.texts)}

    @property
    def groups(self) -> dict[str, pa.Array]:
        """The columns by whose values there are slices."""
        return {name: self.rows[f"other_{index}"] for index, name in enumerate(self.options.by)}


def read_labelled(path: Path, options: FileOptions, classes: Sequence[str] | None) -> LabelledFile:
    """Read a file, whose labels are names of ``classes`` (or their ids, if none is a name); numbers without classes.

    Raises:
        DataError: The file cannot be read, lacks a column, has no rows, or a bad row where these are an error.
    """
    file, printed = open_rows(path, detect_layout(path, options.encoding), policy=options.bad_rows), Report()
    others = dict.fromkeys(options.by, "--by")
    check_columns(file.columns, dict.fromkeys(options.texts, "--text") | {options.label: "--label"} | others, str(path))
    unit = file.source.unit
    bad = BadRows(str(path), unit, options.bad_rows, lambda problem: printed.add(f"skipped {problem.place(unit)}: {problem.message}"))
    columns = LabelledColumns(options.texts, options.label, classes is None, others, sparse=True, policy=options.bad_rows)
    with open_table(file.source) as table:
        rows = pa.Table.from_batches(labelled_rows(table, columns, bad), columns.schema).combine_chunks()
    labels = rows[LABEL]
    if classes is not None:
        written = written_classes(classes, set(pc.unique(labels.drop_null()).to_pylist()))
        labels = pc.index_in(labels, value_set=pa.array(written, pa.string()), skip_nulls=True)
    used = np.ones(len(rows), dtype=bool)
    for index, problem in _problems(rows, labels, options, classes or ()):
        used[index] = False
        bad.add(problem)
    bad.check(int(used.sum()))
    if not used.any():
        raise DataError(f"{path} has no labelled rows.", f"It needs rows with text and a label in {options.label!r}.")
    kind = np.float32 if classes is None else np.int64
    (kept,) = rows.filter(pa.array(used)).combine_chunks().to_batches()
    return LabelledFile(path, options, kept, labels.to_numpy()[used].astype(kind), unit, bad.count)


def _problems(rows: pa.Table, labels: pa.ChunkedArray, options: FileOptions, classes: Sequence[str]) -> Iterator[tuple[int, RowProblem]]:
    """Yield the rows without text, without a label, or with one that is none of the classes."""
    filled = has_text([rows[f"text_{index}"].combine_chunks() for index in range(len(options.texts))])
    usable = filled.to_numpy(zero_copy_only=False) & labels.is_valid().to_numpy()
    for index in np.flatnonzero(~usable).tolist():
        given, position = rows[LABEL][index].as_py(), rows[POSITION][index].as_py()
        if not filled[index].as_py():
            yield index, RowProblem(position, "no text", "Every row needs text.", " and ".join(map(repr, options.texts)))
        elif given is None:
            yield index, RowProblem(position, "no label", "`tuneline predict` takes rows without labels.", repr(options.label))
        else:
            yield index, RowProblem(position, f"the model has no class {given!r}", f"It knows {listed(classes)}.", repr(options.label))
