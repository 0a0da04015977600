"""Class names, their ids, and the labels of a batch as ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from stages.download.columns import listed
from stages.download.reading import LABEL
from stages.download.slices import Slice
from stages.download.staging import Staged
from tuneline.errors import DataError
from tuneline.files.schemas import UNLABELLED, LabelSchema

MANY = 1_000
"""More classes than this, in more than half of the rows, are no classes: the wrong column was named."""


@dataclass(frozen=True)
class Encoding:
    """How labels of the source become ids.

    Attributes:
        labels: Class names in the order of their ids; none for a regression.
        written: How the source writes each class: its name, or its id where ``data.label_names`` names what it only counts.
    """

    labels: LabelSchema
    written: tuple[str, ...]

    @classmethod
    def numbers(cls) -> Self:
        """For a regression."""
        return cls(LabelSchema(None), ())

    @classmethod
    def classes(cls, staged: Mapping[str, Staged], train: Sequence[Slice], given: Sequence[str] | None) -> Self:
        """For a classification: the names that are given, else those of the source, else those of the train split, sorted.

        Args:
            staged: The source's splits.
            train: What the train split is made of.
            given: ``data.label_names``.

        Raises:
            DataError: There are fewer than two classes in the train split, or too many to be classes.
        """
        found = _found(staged, train)
        known = next((staged[part.source].label_names for part in train), None)
        names = tuple(given or known or sorted_names(found))
        counted = tuple(str(position) for position in range(len(names)))
        written = counted if given and not found <= set(names) and found <= set(counted) else names
        return cls(LabelSchema(names), written)

    def ids(self, batch: pa.RecordBatch, labelled: bool) -> pa.Array:
        """LabelSchema as ``data/raw`` has them, int64 or float32: null where there is none, -1 in a split that has none at all.

        A label that is not known has the id -1 too; ``unknown`` finds it.
        """
        if not labelled:
            return pa.array([UNLABELLED] * batch.num_rows, self.labels.type)
        values = batch[LABEL]
        if self.labels.is_regression:
            return values.cast(pa.float32(), safe=False)
        ids = pc.index_in(values, value_set=pa.array(self.written, pa.string()))
        return pc.if_else(pc.is_null(values), None, pc.fill_null(ids, UNLABELLED)).cast(pa.int64())


def _found(staged: Mapping[str, Staged], train: Sequence[Slice]) -> set[str]:
    found: set[str] = set()
    rows = 0
    for part in train:
        for batch in staged[part.source].batches(part):
            found.update(pc.unique(batch[LABEL].drop_null()).to_pylist())
            rows += batch.num_rows
            if len(found) > MANY and 2 * len(found) > rows:
                raise DataError(
                    f"{staged[part.source].name}: {len(found):,} different labels in {rows:,} rows.",
                    "See that data.label_column names the label; for numbers to predict set data.task to regression.",
                )
    if len(found) < 2:
        only = f"only the label {found.pop()!r}" if found else "no label"
        raise DataError(
            f"The train split has {only}.", "A classification needs two classes at least; see data.splits and data.label_column."
        )
    return found


def sorted_names(names: set[str]) -> tuple[str, ...]:
    """Names in the order of their ids: as numbers where all are whole numbers ('2' before '10'), else as text."""
    if all(name.removeprefix("-").isdecimal() and name.isascii() for name in names):
        return tuple(sorted(names, key=int))
    return tuple(sorted(names))


def unknown(where: str, name: str, encoding: Encoding) -> DataError:
    """What to say about a label that no class is written as."""
    hint = "Mend it. Classes that the train split does not have are named in data.label_names, with all others."
    return DataError(f"{where}: label {name!r} is not one of {listed(encoding.written)}.", hint)
