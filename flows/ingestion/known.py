"""The data that the pipeline reads already: hashes of its rows, and how it writes its classes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from flows.ingestion.columns import RowColumns, as_class
from flows.ingestion.layout import Layout
from flows.ingestion.reading import LabelledFile, known_rows
from flows.ingestion.selection import RowHashes
from tuneline.errors import DataError
from tuneline.params.data import DataParams, FilesParams
from tuneline.readers.rows import listed


@dataclass(frozen=True)
class KnownData:
    """The rows of every split of the source.

    Attributes:
        rows: Their hashes.
        labels: The labels of a classification, as the split that gets new rows has them.
    """

    rows: RowHashes
    labels: frozenset[str]

    @classmethod
    def read(cls, root: Path, layout: Layout, columns: RowColumns, files: FilesParams, log: Callable[[str], None]) -> "KnownData":
        """Read the data of a checkout.

        Raises:
            DataError: A file cannot be read.
        """
        parts: list[RowHashes] = []
        labels: set[str] = set()
        for split in (layout.split, *layout.held):
            for path in layout.files(root, split):
                for values in known_rows(path, columns, files):
                    texts = [pa.array(values[name], pa.string()) for name in columns.texts]
                    label = pa.array(values[columns.label], columns.schema.field(columns.label).type)
                    keys = pa.array(values[columns.key], pa.string()) if columns.key else None
                    parts.append(RowHashes.of(texts, label, keys, held=split != layout.split))
                    if split == layout.split:
                        labels.update(name for name in values[columns.label] if isinstance(name, str))
        rows = RowHashes.joined(parts)
        log(f"The data has {len(rows.texts):,} rows.")
        return cls(rows, frozenset(labels))


@dataclass(frozen=True)
class Classes:
    """How a label of a new row is written in the data.

    Attributes:
        written: By label as a source may give it; ``None``: any label is written as it is.
    """

    written: Mapping[str, str] | None

    @classmethod
    def of(cls, data: DataParams, labels: frozenset[str]) -> "Classes":
        """Return the classes of ``data.label_names``, by name or id, else those that the data has; any label where it has none."""
        if data.task == "regression" or not (data.label_names or labels):
            return cls(None)
        if not data.label_names:
            return cls({label: label for label in labels})
        ids = {str(position): name for position, name in enumerate(data.label_names)}
        names = {str(as_class(name)): name for name in data.label_names}
        if labels and labels <= ids.keys() and not labels <= names.keys():  # the files have ids, as stage download understands them
            return cls({name: number for number, name in ids.items()} | {number: number for number in ids})
        return cls(ids | names)

    def translate(self, table: pa.Table, label: str, file: LabelledFile) -> pa.Table:
        """Return rows with their labels as they are written in the data.

        Args:
            table: The rows.
            label: The label column.
            file: The file they are from.

        Raises:
            DataError: A label is not a class.
        """
        if self.written is None:
            return table
        given: Sequence[str] = table[label].to_pylist()
        for row, name in enumerate(given):
            if name not in self.written:
                hint = "Correct it; a new class must be listed in data.label_names, with all others."
                raise DataError(
                    f"{file.place(table, row)}: label {name!r} is not one of {listed(sorted(set(self.written.values())))}.", hint
                )
        labels = pa.array([self.written[name] for name in given], pa.string())
        return table.set_column(table.schema.get_field_index(label), label, labels)
