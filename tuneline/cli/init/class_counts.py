"""Rows per class and split, counted as the stage ``download`` will write them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tuneline.analysis.splitting import assign_splits, row_hashes
from tuneline.analysis.time_splitting import split_by_time
from tuneline.cli.init.columns import ColumnChoice
from tuneline.cli.init.row_file import RowFile
from tuneline.core.paths import SPLITS
from tuneline.params.data import SplitParams
from tuneline.readers.inputs import open_table
from tuneline.readers.labelled import LABEL, POSITION, LabelledColumns, has_text, labelled_rows
from tuneline.readers.rows import BadRows, check_columns
from tuneline.tasks import TASKS


@dataclass
class LeftOut:
    """The rows that the stage ``download`` will leave out.

    Attributes:
        incomplete: Number of rows without text or label.
        unreadable, first: Number of rows that cannot be read, and place and reason of the first ones.
        share: Largest fraction of the rows of a file.
    """

    incomplete: int = 0
    unreadable: int = 0
    first: list[str] = field(default_factory=list)
    share: float = 0.0

    def add(self, bad: BadRows, incomplete: int, rows: int) -> None:
        """Add a file: its ``bad`` rows, and how many of its readable ``rows`` are incomplete."""
        self.incomplete += incomplete
        self.unreadable += bad.count
        self.first += [f"{bad.name}, {place}" for place in bad.first]
        self.share = max(self.share, (bad.count + incomplete) / max(rows + bad.count, 1))


@dataclass
class SplitCounts:
    """The complete rows of a split.

    Attributes:
        rows: Number of rows.
        classes: Number of rows of each class, or label; one class ``""`` in a regression.
        unlabelled: Number of rows without any label, where rows can have several.
    """

    rows: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    unlabelled: int = 0

    def add(self, labels: str | list[str]) -> None:
        """Count a row: its class, or its set of labels."""
        self.rows += 1
        if isinstance(labels, str):
            self.classes[labels] += 1
            return
        self.classes.update(labels)
        self.unlabelled += not labels


def count_classes(
    files: Mapping[str, RowFile], decision: ColumnChoice, split: SplitParams | None, seed: int
) -> tuple[dict[str, SplitCounts], LeftOut]:
    """Count the rows as the stage ``download`` will divide them.

    Args:
        files: The file of each split that has one.
        decision: Columns and task.
        split: How the train file is divided; ``None`` if it is not.
        seed: Seed of the division.

    Returns:
        The complete rows of each split, and the other rows.
    """
    counts = {name: SplitCounts() for name in SPLITS}
    left_out = LeftOut()
    for name, file in files.items():
        bad = file.bad_rows()
        labels, parts = _read_classes(name, file, decision, split, seed, bad=bad)
        for label, part in zip(labels, parts, strict=True):
            if label is not None:
                counts[SPLITS[part]].add(label)
        left_out.add(bad, incomplete=labels.count(None), rows=len(labels))
    return counts, left_out


def _read_classes(
    name: str,
    file: RowFile,
    decision: ColumnChoice,
    split: SplitParams | None,
    seed: int,
    *,
    bad: BadRows,
) -> tuple[list[str | list[str] | None], list[int]]:
    """Return the class or the labels of each row of the file of a split, and the position of its split.

    The position is in ``SPLITS``. The class of an incomplete row is ``None``. Rows that cannot be read are
    counted in ``bad``.
    """
    kind = TASKS[decision.task]
    # Only the train file is divided.
    division = split if name == "train" else None
    column = None
    if division is not None:
        column = division.column

    labels: list[str | list[str] | None] = []
    rows = []
    columns = []
    deciding = []
    positions: list[int] = []
    is_complete = []
    for batch in _labelled(file, decision, division, bad):
        texts = batch.columns[: len(decision.text_columns)]
        label = batch[LABEL]

        # labels of the complete rows
        complete = pc.and_(has_text(texts), pc.is_valid(label))
        values = label
        if not kind.has_classes:
            values = pa.repeat("", len(label))
        labels += pc.if_else(complete, values, pa.scalar(None, values.type)).to_pylist()

        # what decides on the split of a row
        groups = None
        if column is not None:
            groups = batch["other_0"]
            deciding.append(groups)
        rows.append(row_hashes(texts, groups, seed))
        columns.append(label)
        positions += batch[POSITION].to_pylist()
        is_complete.append(complete)
    bad.check(len(labels))

    # the split of each row, as the stage computes it from its texts
    if division is None or not rows:
        return labels, [SPLITS.index(name)] * len(labels)
    if division.by_time is not None:

        def place(row: int) -> str:
            return f"{file.path}, {bad.unit} {positions[row]:,}"

        needs_time = pa.concat_arrays(is_complete).to_numpy(zero_copy_only=False)
        parts = split_by_time(pa.concat_arrays(deciding), needs_time, division, place)
        return labels, parts.tolist()
    strata = kind.strata(pa.concat_arrays(columns))
    return labels, assign_splits(np.concatenate(rows), strata, division).tolist()


def _labelled(
    file: RowFile, decision: ColumnChoice, division: SplitParams | None, bad: BadRows
) -> Iterator[pa.RecordBatch]:
    options = dict.fromkeys(decision.text_columns, "--text")
    options |= dict.fromkeys(decision.label_columns, "--label")
    check_columns(file.columns, options, str(file.path))
    others = {}
    if division is not None and division.column is not None:
        others[division.column] = "--by-time" if division.by_time else "--by"
    columns = LabelledColumns(
        decision.text_columns,
        decision.label_column,
        TASKS[decision.task],
        others=others,
        sparse=True,
        policy=file.policy,
        sets=decision.sets,
    )
    with open_table(file.source) as table:
        yield from labelled_rows(table, columns, bad)
