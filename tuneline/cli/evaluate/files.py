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
class LabelledFile:
    """The rows of a file, at least one.

    Attributes:
        label: Name of the label column.
        texts: The text columns by name.
        groups: The columns by whose values there are slices.
        positions: The line of each row; its row in a Parquet file.
        labels: Class ids or numbers, of shape ``(rows,)``.
        unit: What positions count: ``line`` or ``row``.
        left_out: Number of bad rows.
    """

    path: Path
    label: str
    texts: dict[str, pa.Array]
    groups: dict[str, pa.Array]
    positions: pa.Array
    labels: NDArray[Any]
    unit: str
    left_out: int


def read_labelled(
    path: Path,
    texts: Sequence[str],
    label: str,
    classes: Sequence[str] | None,
    policy: BadRowPolicy,
    *,
    by: Sequence[str] = (),
    encoding: str | None = None,
) -> LabelledFile:
    """Read a file, whose labels are names of ``classes`` (or their ids, if none is a name); numbers without classes.

    ``texts``, ``label`` and ``by`` are columns; the encoding is detected by default.

    Raises:
        DataError: The file cannot be read, lacks a column, has no rows, or a bad row where these are an error.
    """
    file, printed = open_rows(path, detect_layout(path, encoding), policy=policy), Report()
    others = dict.fromkeys(by, "--by")
    check_columns(file.columns, dict.fromkeys(texts, "--text") | {label: "--label"} | others, str(path))
    unit = file.source.unit
    bad = BadRows(str(path), unit, policy, lambda problem: printed.add(f"skipped {problem.place(unit)}: {problem.message}"))
    columns = LabelledColumns(tuple(texts), label, classes is None, others, sparse=True, policy=policy)
    with open_table(file.source) as table:
        rows = pa.Table.from_batches(labelled_rows(table, columns, bad), columns.schema).combine_chunks()
    labels = rows[LABEL]
    if classes is not None:
        written = written_classes(classes, set(pc.unique(labels.drop_null()).to_pylist()))
        labels = pc.index_in(labels, value_set=pa.array(written, pa.string()), skip_nulls=True)
    used = np.ones(len(rows), dtype=bool)
    for index, problem in _problems(rows, labels, texts, label, classes or ()):
        used[index] = False
        bad.add(problem)
    bad.check(int(used.sum()))
    if not used.any():
        raise DataError(f"{path} has no labelled rows.", f"It needs rows with text and a label in {label!r}.")
    (kept,) = rows.filter(pa.array(used)).combine_chunks().to_batches()
    of_texts = {name: kept[f"text_{index}"] for index, name in enumerate(texts)}
    groups = {name: kept[f"other_{index}"] for index, name in enumerate(by)}
    ids = labels.to_numpy()[used].astype(np.float32 if classes is None else np.int64)
    return LabelledFile(path, label, of_texts, groups, kept[POSITION], ids, unit, bad.count)


def _problems(
    rows: pa.Table, labels: pa.ChunkedArray, texts: Sequence[str], label: str, classes: Sequence[str]
) -> Iterator[tuple[int, RowProblem]]:
    """Yield the rows without text, without a label, or with one that is none of the classes."""
    filled = has_text([rows[f"text_{index}"].combine_chunks() for index in range(len(texts))])
    usable = filled.to_numpy(zero_copy_only=False) & labels.is_valid().to_numpy()
    for index in np.flatnonzero(~usable).tolist():
        given, position = rows[LABEL][index].as_py(), rows[POSITION][index].as_py()
        if not filled[index].as_py():
            yield index, RowProblem(position, "no text", "Every row needs text.", " and ".join(map(repr, texts)))
        elif given is None:
            yield index, RowProblem(position, "no label", "`tuneline predict` takes rows without labels.", repr(label))
        else:
            yield index, RowProblem(position, f"the model has no class {given!r}", f"It knows {listed(classes)}.", repr(label))
