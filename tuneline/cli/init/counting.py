"""The rows of the user's files, counted as the stage ``download`` will divide them."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tuneline.cli.init.columns import Decision
from tuneline.cli.init.rows import RowFile
from tuneline.params.data import SplitParams
from tuneline.paths import SPLITS
from tuneline.readers.bad_rows import BadRows
from tuneline.readers.rows import check_columns
from tuneline.splitting import assign_splits, hashes, row_hashes

BATCH = 10_000
"""Rows that are hashed at a time."""


@dataclass
class LeftOut:
    """The rows that the stage ``download`` will leave out.

    Attributes:
        incomplete: Number of rows without text or label.
        unreadable: Number of rows that cannot be read.
        first: Place and reason of the first ones of these.
        share: Largest fraction of the rows of a file.
    """

    incomplete: int = 0
    unreadable: int = 0
    first: list[str] = field(default_factory=list)
    share: float = 0.0

    def add(self, bad: BadRows, incomplete: int, rows: int) -> None:
        """Add those of a file.

        Args:
            bad: The rows that cannot be read.
            incomplete: Number of rows without text or label.
            rows: Number of rows that can be read.
        """
        self.incomplete += incomplete
        self.unreadable += bad.count
        self.first += [f"{bad.name}, {place}" for place in bad.first]
        self.share = max(self.share, (bad.count + incomplete) / max(rows + bad.count, 1))


def count_classes(
    files: Mapping[str, RowFile], decision: Decision, split: SplitParams | None, seed: int
) -> tuple[dict[str, Counter[str]], LeftOut]:
    """Return the complete rows per class of each split, as the stage ``download`` will divide them, and the others."""
    classes: dict[str, Counter[str]] = {name: Counter() for name in SPLITS}
    left_out = LeftOut()
    for name, file in files.items():
        rows, strata, labels = [], [], []
        bad = BadRows(str(file.path), "line", file.policy)
        for texts, group, label in _batches(file, decision, split.by if split and name == "train" else None, bad):
            labels += _labels(texts, label, decision.task == "regression")
            rows.append(row_hashes(texts, group, seed))
            strata.append(hashes(label) if decision.task == "classification" else np.zeros(len(label), np.uint64))
        parts = np.full(len(labels), SPLITS.index(name))
        if split is not None and name == "train":
            parts = assign_splits(np.concatenate(rows), np.concatenate(strata), split)
        for value, part in zip(labels, parts.tolist(), strict=True):
            if value is not None:
                classes[SPLITS[part]][value] += 1
        left_out.add(bad, labels.count(None), len(labels))
    return classes, left_out


def _batches(
    file: RowFile, decision: Decision, by: str | None, bad: BadRows
) -> Iterator[tuple[list[pa.StringArray], pa.StringArray | None, pa.StringArray]]:
    """Yield the text columns, the groups if any, and the labels, without white space around groups and labels."""
    check_columns(file.columns, dict.fromkeys(decision.text_columns, "--text") | {decision.label_column: "--label"}, str(file.path))
    texts = [file.columns.index(name) for name in decision.text_columns]
    label, group = file.columns.index(decision.label_column), file.columns.index(by) if by else None
    source = file.rows(bad)
    while rows := list(itertools.islice(source, BATCH)):
        cells = list(zip(*rows, strict=True))
        yield (
            [pa.array(cells[text], pa.string()) for text in texts],
            None if group is None else _stripped(cells[group]),
            _stripped(cells[label]),
        )


def _stripped(cells: Sequence[str | None]) -> pa.StringArray:
    return pa.array([(cell or "").strip() or None for cell in cells], pa.string())


def _labels(texts: list[pa.StringArray], labels: pa.StringArray, regression: bool) -> list[str | None]:
    """Return the class of each row, ``""`` in a regression; ``None`` for a row without text or label."""
    columns = zip(*(column.to_pylist() for column in texts), strict=True)
    return [
        None if label is None or None in text or not any(part.strip() for part in text) else "" if regression else label
        for text, label in zip(columns, labels.to_pylist(), strict=True)
    ]
