"""A whole file of labelled rows in memory, as a model reads it: columns and classes are the model's."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.terminal import listed
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import array_of, label_type, observed_classes, stored_labels
from tuneline.model.tasks.task import Labels
from tuneline.rows.proposals.files import sniffed_input
from tuneline.rows.reading.label_values import written_classes
from tuneline.rows.reading.labelled import LABEL, POSITION, LabelledColumns, has_text, labelled_rows
from tuneline.rows.reading.rows import BadRows, RowProblem
from tuneline.rows.reading.tables import open_table


@dataclass(frozen=True)
class LabelledFile:
    """The rows of a file, at least one.

    Attributes:
        texts: The text columns by name.
        positions: The line of each row; its row in a Parquet file.
        labels: Class ids or numbers, of shape ``(rows,)``.
        unit: What positions count: ``line`` or ``row``.
        left_out: Number of bad rows.
    """

    path: Path
    texts: dict[str, pa.Array]
    positions: pa.Array
    labels: Labels
    unit: str
    left_out: int

    def place(self, row: int) -> str:
        """Return where a row is, for messages."""
        return f"{self.path}, {self.unit} {self.positions[row]}"


def read_labelled(path: Path, columns: LabelledColumns, encoding: str | None = None) -> LabelledFile:
    """Read a file, whose labels are class names of the task (or ids, if none is a name), or numbers.

    The encoding is detected by default.

    Raises:
        DataError: The file cannot be read, lacks a column, has no rows, or a bad row where these are an
            error.
    """
    task = columns.task
    source = sniffed_input(path, columns.names, None, encoding)
    bad = BadRows(str(path), source.unit, columns.policy, printed=True)
    with open_table(source) as table:
        rows = pa.Table.from_batches(labelled_rows(table, columns, bad), columns.schema).combine_chunks()

    # labels
    labels = rows[LABEL].combine_chunks()
    written: Sequence[str] = ()
    if task.has_classes:
        written = written_classes(task.output_names, observed_classes(task, labels))
        labels = stored_labels(task, labels, written)
    is_known = labels.is_valid().to_numpy(zero_copy_only=False)
    is_known[is_known] = task.valid(array_of(task, labels.drop_null()))

    # rows without text, without a label, or with a label that is none of the classes
    filled = has_text([rows[f"text_{index}"].combine_chunks() for index in range(len(columns.texts))])
    is_filled = filled.to_numpy(zero_copy_only=False)
    is_used = is_filled & is_known
    for index in np.flatnonzero(~is_used).tolist():
        position = rows[POSITION][index].as_py()
        if not is_filled[index]:
            names = " and ".join(map(repr, columns.texts))
            bad.add(RowProblem(position, "no text", "Every row needs text.", names))
        else:
            bad.add(_label_problem(rows[LABEL][index].as_py(), position, columns.label, task, written))
    bad.check(int(is_used.sum()))
    if not is_used.any():
        raise DataError(
            f"{path} has no labelled rows.", f"It needs rows with text and a label in {columns.label!r}."
        )

    (kept,) = rows.filter(pa.array(is_used)).combine_chunks().to_batches()
    return LabelledFile(
        path,
        texts={name: kept[f"text_{index}"] for index, name in enumerate(columns.texts)},
        positions=kept[POSITION],
        labels=array_of(task, labels.filter(pa.array(is_used)).cast(label_type(task))),
        unit=source.unit,
        left_out=bad.count,
    )


def _label_problem(value: Any, position: int, label: str, task: Task, written: Sequence[str]) -> RowProblem:
    """Return what is wrong with a label; ``written`` is how each class is written in the file."""
    if value is None:
        return RowProblem(position, "no label", "`tuneline predict` takes rows without labels.", repr(label))
    names = value if isinstance(value, list) else [value]
    unknown = next((name for name in names if name not in written), value)
    hint = f"It knows {listed(task.output_names)}."
    return RowProblem(position, f"the model has no class {unknown!r}", hint, repr(label))
