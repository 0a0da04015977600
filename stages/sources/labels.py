"""Class names and their ids."""

import pyarrow as pa
import pyarrow.compute as pc

from stages.errors import DataError
from stages.sources.reading import LABEL, PLACE
from stages.sources.slices import Slice
from stages.sources.staging import Staged
from stages.tables import UNLABELLED, Labels


def sorted_names(names: set[str]) -> tuple[str, ...]:
    """Names in the order of their ids: as numbers where all are whole numbers ('2' before '10'), else as text."""
    if all(_whole(name) for name in names):
        return tuple(sorted(names, key=int))
    return tuple(sorted(names))


def _whole(name: str) -> bool:
    return name.removeprefix("-").isdecimal() and name.isascii()


def names_in(staged: Staged, parts: list[Slice]) -> set[str]:
    """The different labels in some slices of one source split."""
    found: set[str] = set()
    for part in parts:
        for batch in staged.batches(part):
            found.update(pc.unique(batch[LABEL].drop_null()).to_pylist())
    return found


def encode(batch: pa.RecordBatch, labels: Labels, staged: Staged, column: str) -> pa.Array:
    """Labels as they are written to ``data/raw``: int64 ids, or float32 numbers; -1 in a split without labels.

    Raises:
        DataError: A row has no label while others do, or one that is not among the names.
    """
    if not staged.labelled:
        return pa.array([UNLABELLED] * batch.num_rows, labels.type)
    values = batch[LABEL]
    ids = values if labels.names is None else pc.index_in(values, value_set=pa.array(labels.names))
    if ids.null_count:
        row = pc.index(pc.is_null(ids), True).as_py()
        where = f"{staged.name}, {staged.unit} {batch[PLACE][row].as_py():,}, column {column!r}"
        raise _missing(where) if values[row].as_py() is None else _unknown(where, values[row].as_py(), labels.names or ())
    return ids.cast(labels.type, safe=False)


def _missing(where: str) -> DataError:
    return DataError(f"{where}: no label (empty or null).", "Fill it in, or leave the row out.")


def _unknown(where: str, name: str, names: tuple[str, ...]) -> DataError:
    known = ", ".join(repr(known) for known in names[:20]) + (", ..." if len(names) > 20 else "")
    return DataError(f"{where}: label {name!r} is not one of {known}.", "Mend it, or name all classes in data.label_names.")
