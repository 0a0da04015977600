"""Rows per class and split, counted as the stage ``download`` will write them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.analysis.clusters import Clusters, cluster_texts, renumbered
from tuneline.analysis.splitting import assign_splits, row_hashes, strata
from tuneline.analysis.text import Keys
from tuneline.analysis.time_splitting import split_by_time
from tuneline.cli.init.row_file import RowFile
from tuneline.columns.choice import ColumnChoice
from tuneline.params.data import SplitParams
from tuneline.params.validate import ValidateParams
from tuneline.paths import SPLITS
from tuneline.readers.labelled import LABEL, POSITION, LabelledColumns, has_text, labelled_rows
from tuneline.readers.rows import BadRows
from tuneline.tasks import TASKS, unnamed_task


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
        clusters: Cluster of each row by its text, and by its group; empty if they are not known.
    """

    rows: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    unlabelled: int = 0
    clusters: Clusters = field(default_factory=lambda: np.empty(0, np.int32))

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
        labels, parts, texts = _read_classes(name, file, decision, split, seed, bad=bad)
        for label, part in zip(labels, parts, strict=True):
            if label is not None:
                counts[SPLITS[part]].add(label)
        used = np.array([label is not None for label in labels], dtype=bool)
        is_test = used & (np.array(parts, dtype=np.int8) == SPLITS.index("test"))
        if is_test.any():
            counts["test"].clusters = texts.clusters(is_test)
        left_out.add(bad, incomplete=labels.count(None), rows=len(labels))
    return counts, left_out


@dataclass
class TextSample:
    """The texts of the first rows of a file, and the hash of each row's texts or group.

    Attributes:
        columns: Batches of each text column, of at most ``MOST_TEXTS`` rows.
        hashes: Hashes of all rows, by batch.
        grouped: True if the hashes are of groups.
    """

    columns: list[list[pa.StringArray]] = field(default_factory=list)
    hashes: list[Keys] = field(default_factory=list)
    grouped: bool = False

    def add(self, texts: Sequence[pa.StringArray], hashes: Keys) -> None:
        """Add a batch of rows."""
        self.hashes.append(hashes)
        if sum(map(len, self.hashes)) <= MOST_TEXTS:
            self.columns.append([pc.fill_null(text, "") for text in texts])

    def clusters(self, chosen: NDArray[np.bool_]) -> Clusters:
        """Return the clusters of chosen rows; of a file of very many rows, by equal texts only."""
        hashes = np.concatenate(self.hashes)[chosen]
        if len(self.columns) < len(self.hashes):
            return renumbered(hashes)
        columns = []
        for batches in zip(*self.columns, strict=True):
            columns.append(pa.concat_arrays(batches).filter(pa.array(chosen)))
        similarity = ValidateParams().near_duplicate_similarity
        return cluster_texts(columns, similarity, hashes if self.grouped else None)


MOST_TEXTS = 200_000
"""Rows of a file among which nearly equal texts are searched: it takes a second or two."""


def _read_classes(
    name: str,
    file: RowFile,
    decision: ColumnChoice,
    split: SplitParams | None,
    seed: int,
    *,
    bad: BadRows,
) -> tuple[list[str | list[str] | None], list[int], TextSample]:
    """Return the class or the labels of each row of a file, the position of its split, and the texts.

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
    is_grouped = division is not None and division.by is not None
    sample = TextSample(grouped=is_grouped)
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
        sample.add(texts, row_hashes(texts, groups if is_grouped else None, seed))
        columns.append(label)
        positions += batch[POSITION].to_pylist()
        is_complete.append(complete)
    bad.check(len(labels))

    # the split of each row, as the stage computes it from its texts
    if division is None or not columns:
        return labels, [SPLITS.index(name)] * len(labels), sample
    if division.by_time is not None:

        def place(row: int) -> str:
            return f"{file.path}, {bad.unit} {positions[row]:,}"

        needs_time = pa.concat_arrays(is_complete).to_numpy(zero_copy_only=False)
        parts = split_by_time(pa.concat_arrays(deciding), needs_time, division, place)
        return labels, parts.tolist(), sample
    row_strata = strata(unnamed_task(decision.task), pa.concat_arrays(columns))
    return labels, assign_splits(np.concatenate(sample.hashes), row_strata, division).tolist(), sample


def _labelled(
    file: RowFile, decision: ColumnChoice, division: SplitParams | None, bad: BadRows
) -> Iterator[pa.RecordBatch]:
    others = {}
    if division is not None and division.column is not None:
        others[division.column] = "--by-time" if division.by_time else "--by"
    columns = LabelledColumns(
        decision.text_columns,
        decision.label_column,
        unnamed_task(decision.task),
        others=others,
        sparse=True,
        policy=file.policy,
        sets=decision.sets,
        text_option="--text",
        label_option="--label",
    )
    with file.open() as table:
        yield from labelled_rows(table, columns, bad)
