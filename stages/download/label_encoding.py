"""Labels of the source as ids: which classes there are, and how the source writes each of them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from stages.download.row_selection import RowSelection
from stages.download.source import StagedSplit
from stages.download.unlabelled import unlabelled_column
from tuneline.params.data import DataParams
from tuneline.readers.label_values import written_classes
from tuneline.readers.labelled import LABEL
from tuneline.runtime.errors import DataError
from tuneline.tasks import Task, unnamed_task
from tuneline.tasks.columns import observed_classes, stored_labels

MANY = 1_000
"""More distinct labels than this, and in more than half of the rows, mean that the wrong column was named."""


@dataclass(frozen=True)
class LabelEncoder:
    """Converts the labels of the source to ids.

    Attributes:
        labels: The task with its classes.
        written: How the batches of the source write each class: by its name, a whole number without decimals,
            or by its id where only ``data.label_names`` names the classes.
    """

    labels: Task
    written: tuple[str, ...]

    @classmethod
    def of(cls, staged: Mapping[str, StagedSplit], train: RowSelection, data: DataParams) -> Self:
        """Return the encoder of a regression or of the classes.

        The classes are ``data.label_names``, else the ones that the source declares, else the sorted labels
        of train.

        Raises:
            DataError: The train split has fewer than two classes, or nearly as many as rows.
        """
        unnamed = unnamed_task(data.task)
        if not unnamed.has_classes:
            return cls(unnamed, ())

        observed = _observed(unnamed, train.batches(staged))
        declared = staged[train.slices[0].source].label_names
        names = tuple(data.label_names or declared or _sorted(observed))
        written = written_classes(names, observed if data.label_names else ())
        return cls(unnamed.of_outputs(names), written)

    def ids(self, batch: pa.RecordBatch, labelled: bool) -> pa.Array:
        """Return the labels of a batch for ``data/raw``, of the type of the task.

        A missing label is null, and -1 in a split without any labels. The id of an unknown label is -1, too.
        """
        if not labelled:
            return unlabelled_column(self.labels, batch.num_rows)
        return stored_labels(self.labels, batch[LABEL], self.written)


def _sorted(names: Collection[str]) -> list[str]:
    """Return class names in the order of their ids: whole numbers as numbers, so that '2' is before '10'."""
    if all(name.removeprefix("-").isdecimal() and name.isascii() for name in names):
        return sorted(names, key=int)
    return sorted(names)


def _observed(task: Task, train: Iterable[tuple[StagedSplit, pa.RecordBatch]]) -> set[str]:
    """Return the distinct labels of train."""
    observed: set[str] = set()
    rows = 0
    for split, batch in train:
        observed |= observed_classes(task, batch[LABEL])
        rows += batch.num_rows
        # Checked in the loop: a column of texts would fill the memory with distinct labels.
        if len(observed) > MANY and 2 * len(observed) > rows:
            raise DataError(
                f"{split.name}: {len(observed):,} distinct labels in {rows:,} rows.",
                "Check that data.label_column names the label column; to predict numbers, set data.task to"
                " regression.",
            )
    if len(observed) < 2:
        only = "no label"
        if observed:
            only = f"only the label {observed.pop()!r}"
        raise DataError(
            f"The train split has {only}.",
            "A classification needs at least two classes; check data.splits and data.label_column.",
        )
    return observed
