"""Sources of rows: their splits, read once, with the columns that ``data`` names, and a copy of each.

A source is read once. Its splits are copied to temporary Parquet files, because finding the classes, dividing
the rows and writing the splits of the pipeline each go over all rows.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tuneline.core.params import Params
from tuneline.core.paths import DOWNLOAD, SPLITS
from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.files import replace_file
from tuneline.core.runtime.terminal import progress, say
from tuneline.core.stage.tables import ROW_GROUP, rebatch, write_batches
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import staged_type
from tuneline.model.tasks.task import UNLABELLED
from tuneline.rows.reading.labelled import LABEL, POSITION, BadValues, LabelledColumns, has_text
from tuneline.rows.reading.rows import BadRows

GROUP = "other_0"
"""Column of a source's batches with ``data.split.by`` or ``by_time``, where one is read."""
INDEX = "idx"
HAS_TEXT = "has_text"
HINT = "Fill it in."


SKIPPED = DOWNLOAD / "skipped.parquet"


class SourceSplit(NamedTuple):
    """One split of a source.

    Attributes:
        name: Its file or folder of files, for messages.
        files: The files in the order of their rows, or a whole split where it is not a file: the bad rows
            that are met in it, and its rows of ``LabelledColumns.schema``.
        label_names: Classes that the first file declares; ``None`` if it declares none.
    """

    name: str
    files: Sequence[tuple[BadRows, Iterator[pa.RecordBatch]]]
    label_names: tuple[str, ...] | None = None


class Source(Protocol):
    """Where rows come from: the sample, files, or a data set of the hub."""

    def read(self, split: str, columns: LabelledColumns, /) -> SourceSplit:
        """Open one split."""

    def provenance(self, rows: Mapping[str, int], /) -> dict[str, Any]:
        """Return what ``source.json`` records, given the rows of each file: neither times nor local paths."""


@dataclass
class StagedSplit:
    """The copy of a split of the source.

    Attributes:
        path: A Parquet file: ``LabelledColumns.schema``, ``idx``, the row number from 0, and ``has_text``.
        origins: Of each file the ``idx`` of its first row, and its bad rows.
        labelled: True if any label is neither null nor -1; of sets of names, if any has a name.
        gaps: True if any row has no text or a null for its label.
    """

    name: str
    label_names: tuple[str, ...] | None
    path: Path
    origins: list[tuple[int, BadRows]]
    rows: int = 0
    labelled: bool = False
    gaps: bool = False

    @property
    def file_rows(self) -> dict[str, int]:
        """Number of rows of each file of the source, by its name."""
        # A file ends where the next one begins.
        ends = [first for first, _ in self.origins[1:]]
        ends.append(self.rows)
        return {bad.name: end - first for (first, bad), end in zip(self.origins, ends, strict=True)}

    def file(self, index: int) -> BadRows:
        """Return the bad rows of the file that the row of this ``idx`` is from."""
        position = bisect_right(self.origins, index, key=itemgetter(0)) - 1
        return self.origins[position][1]

    def place(self, batch: pa.RecordBatch, row: int) -> str:
        """Return where a row of a batch is: its file, and its line or row there."""
        file = self.file(batch[INDEX][row].as_py())
        return f"{file.name}, {file.unit} {batch[POSITION][row].as_py():,}"

    def place_of(self, index: int) -> str:
        """Return where the row of this ``idx`` is."""
        first = 0
        for batch in self.batches():
            if index < first + batch.num_rows:
                return self.place(batch, index - first)
            first += batch.num_rows
        raise IndexError(index)

    def complete(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows of a batch have a text and, in a split with labels, a label."""
        if not self.labelled:
            return batch[HAS_TEXT]
        return pc.and_(batch[HAS_TEXT], pc.is_valid(batch[LABEL]))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        with pq.ParquetFile(self.path) as file:
            yield from file.iter_batches(ROW_GROUP)


def has_labels(task: Task, labels: pa.Array) -> bool:
    """Return True if any row has a label: -1 and null are none.

    The empty set is a label beside others, but rows that are to be labelled have an empty column, too.
    """
    if pa.types.is_list(labels.type):
        return len(labels.flatten()) > 0
    unlabelled = pa.scalar(UNLABELLED).cast(staged_type(task))
    return bool(pc.any(pc.not_equal(labels, unlabelled)).as_py())


def stage_split(split: SourceSplit, columns: LabelledColumns, path: Path) -> StagedSplit:
    """Copy a split of the source to a Parquet file.

    Rows that cannot be read are left out, or are an error. A row without text or label is a bad row, too, but
    stays in the copy: only at its end is it known whether the split has labels.

    Raises:
        DataError: A file has too many bad rows, or there are no rows.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = columns.schema.append(pa.field(INDEX, pa.int64(), nullable=False))
    schema = schema.append(pa.field(HAS_TEXT, pa.bool_()))
    staged = StagedSplit(split.name, split.label_names, path, [])
    write_batches(path, schema, rebatch(_numbered(split, columns, schema, staged), schema))

    incomplete: Counter[str] = Counter()
    if staged.gaps:
        for batch in staged.batches():
            _report(staged, columns, batch, incomplete)
    rows = staged.file_rows
    for _, bad in staged.origins:
        bad.check(rows[bad.name] - incomplete[bad.name])
    if staged.rows == 0:
        raise DataError(f"{staged.name} has no rows.", "Add rows, or name another split in data.splits.")
    return staged


def _numbered(
    split: SourceSplit, columns: LabelledColumns, schema: pa.Schema, staged: StagedSplit
) -> Iterator[pa.RecordBatch]:
    """Yield all rows with their numbers, and note what is known of the split only at its end."""
    for bad, batches in split.files:
        staged.origins.append((staged.rows, bad))
        with progress(f"download: {bad.name}") as step:
            for batch in batches:
                filled = has_text(batch.columns[: len(columns.texts)])
                labels = batch[LABEL]
                staged.labelled = staged.labelled or has_labels(columns.task, labels)
                if labels.null_count or not pc.all(filled).as_py():
                    staged.gaps = True
                arrays = batch.columns
                arrays.append(pa.array(np.arange(staged.rows, staged.rows + batch.num_rows)))
                arrays.append(filled)
                staged.rows += batch.num_rows
                yield pa.record_batch(arrays, schema=schema)
                step.advance(batch.num_rows)


def _report(
    staged: StagedSplit, columns: LabelledColumns, batch: pa.RecordBatch, incomplete: Counter[str]
) -> None:
    """Report the incomplete rows of a batch."""
    rows = np.flatnonzero(~staged.complete(batch).to_numpy(zero_copy_only=False)).tolist()

    # columns by the names that the user knows, for messages
    texts = {}
    for position, name in enumerate(columns.texts):
        texts[name] = batch[f"text_{position}"]

    # what each incomplete row lacks
    positions = batch[POSITION].to_pylist()
    values: dict[str, BadValues] = {}
    for row in rows:
        bad = staged.file(batch[INDEX][row].as_py())
        incomplete[bad.name] += 1
        file = values.setdefault(bad.name, BadValues(bad, positions))
        missing = [name for name, text in texts.items() if not text[row].is_valid]
        if missing:
            file.add(row, repr(missing[0]), "no text (null)", HINT)
        elif not any(text[row].as_py().strip() for text in texts.values()):
            file.add(row, " and ".join(map(repr, texts)), "no text, or only white space", HINT)
        else:
            file.add(row, repr(columns.label), "no label", HINT)


SCHEMA = pa.schema(
    [
        ("split", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("reason", pa.string()),
    ]
)
"""``split`` is a split of the source; ``line`` is the row number where rows are not lines."""


def write_skipped(path: Path, read: Mapping[str, SourceSplit]) -> int:
    """Write the rows that were left out, by the split of the source, and return their number.

    A broken record of a text file counts as many as it has lines.
    """
    count = 0
    rows: list[dict[str, str | int]] = []
    for name, split in read.items():
        for bad, _ in split.files:
            count += bad.count
            for problem in bad.problems:
                row: dict[str, str | int] = {"split": name, "file": bad.name, "line": problem.line}
                rows.append(row | {"reason": problem.reason})
    with replace_file(path) as partial:
        write_batches(partial, SCHEMA, [pa.RecordBatch.from_pylist(rows, SCHEMA)])
    return count


def labelled_splits(params: Params) -> list[str]:
    """Return the splits that need labels: for training, model selection and the reported metrics."""
    if params.evaluate.split == "test":
        return list(SPLITS)
    return [split for split in SPLITS if split != "test"]


def source_columns(params: Params, split: str) -> LabelledColumns:
    """Return the columns that are read of the source of a split of the pipeline.

    A split that needs no labels may lack them. Where the rows of train are divided, the column that decides
    is among them.
    """
    data = params.data
    others = []
    if split == "train" and data.split is not None and data.split.column is not None:
        others.append(data.split.column)
    optional = []
    if split not in labelled_splits(params):
        optional.append(data.label_column)
    return LabelledColumns.of(data, others, optional)


def read_splits(params: Params, source: Source, folder: Path) -> tuple[dict[str, StagedSplit], int]:
    """Read each split of the source that ``data.splits`` names into a folder.

    The rows that are left out are also listed if there are too many of them, which is an error.

    Returns:
        The copies, by split of the pipeline, and the number of rows that were left out.
    """
    specs = params.data.source_specs
    staged: dict[str, StagedSplit] = {}
    read: dict[str, SourceSplit] = {}
    skipped = 0
    for split, name in specs.items():
        columns = source_columns(params, split)
        read[name] = source.read(name, columns)
        try:
            staged[split] = stage_split(read[name], columns, folder / f"{split}.parquet")
        finally:
            before = skipped
            skipped = write_skipped(SKIPPED, read)

        message = f"download: {staged[split].name}: {staged[split].rows:,} rows"
        if skipped > before:
            message += f"; bad rows left out: {skipped - before:,}, in {SKIPPED}"
        say(message)
    return staged, skipped
