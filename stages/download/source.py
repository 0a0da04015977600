"""Sources of rows, a copy of each of their splits, and the slices of these that ``data.splits`` names.

A source is read once. Its splits are copied to temporary Parquet files, because finding the classes, dividing
the rows and writing the splits of the pipeline each go over all rows.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tuneline.core.tables import ROW_GROUP, rebatch, write_batches
from tuneline.readers.labelled import LABEL, POSITION, BadValues, LabelledColumns, has_text
from tuneline.readers.rows import LARGEST_ROW_GROUP, MB, BadRows, RowProblem
from tuneline.runtime.atomic_files import replace_file
from tuneline.runtime.errors import DataError
from tuneline.runtime.terminal import progress
from tuneline.tasks import Task
from tuneline.tasks.columns import staged_type
from tuneline.tasks.task import UNLABELLED

GROUP = "other_0"
"""Column of a source's batches with ``data.split.by`` or ``by_time``, where one is read."""
INDEX = "idx"
HAS_TEXT = "has_text"
HINT = "Fill it in."


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


@dataclass(frozen=True)
class StagedSplit:
    """The copy of a split of the source.

    Attributes:
        origins: Of each file the ``idx`` of its first row, and its bad rows.
        path: A Parquet file: ``LabelledColumns.schema``, ``idx``, the row number from 0, and ``has_text``.
        labelled: True if any label is neither null nor -1; of sets of names, if any has a name.
        gaps: True if any row has no text or a null for its label.
    """

    name: str
    origins: Sequence[tuple[int, BadRows]]
    label_names: tuple[str, ...] | None
    path: Path
    rows: int
    labelled: bool
    gaps: bool

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

    def complete(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows of a batch have a text and, in a split with labels, a label."""
        if not self.labelled:
            return batch[HAS_TEXT]
        return pc.and_(batch[HAS_TEXT], pc.is_valid(batch[LABEL]))

    def batches(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from ``start`` to ``stop`` (exclusive).

        Only the row groups that contain them are read.
        """
        first = 0
        with pq.ParquetFile(self.path) as file:
            for group in range(file.num_row_groups):
                end = first + file.metadata.row_group(group).num_rows
                if first < stop and start < end:
                    begin = max(start - first, 0)
                    length = min(stop, end) - first - begin
                    yield from file.read_row_group(group).slice(begin, length).to_batches()
                first = end


OnSkip = Callable[[BadRows, RowProblem], None]


def has_labels(task: Task, labels: pa.Array) -> bool:
    """Return True if any row has a label: -1 and null are none.

    The empty set is a label beside others, but rows that are to be labelled have an empty column, too.
    """
    if pa.types.is_list(labels.type):
        return len(labels.flatten()) > 0
    unlabelled = pa.scalar(UNLABELLED).cast(staged_type(task))
    return bool(pc.any(pc.not_equal(labels, unlabelled)).as_py())


def stage_split(split: SourceSplit, columns: LabelledColumns, path: Path, on_skip: OnSkip) -> StagedSplit:
    """Copy a split of the source.

    Rows that cannot be read are left out, or are an error; rows without text or label are only marked.

    Args:
        split: The split of the source.
        columns: Columns to read.
        path: Parquet file to write.
        on_skip: Called with each row that is left out, and the bad rows of its file.
    """
    # schema of the copy
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = columns.schema.append(pa.field(INDEX, pa.int64(), nullable=False))
    schema = schema.append(pa.field(HAS_TEXT, pa.bool_()))

    # what is known only when all rows were read
    origins: list[tuple[int, BadRows]] = []
    rows = 0
    labelled = False
    gaps = False

    def numbered() -> Iterator[pa.RecordBatch]:
        """Yield all rows with their numbers, and note what is known of the split only at its end."""
        nonlocal rows, labelled, gaps
        size = 0
        for bad, batches in split.files:
            origins.append((rows, bad))
            bad.on_skip = partial(on_skip, bad)
            with progress(f"download: {bad.name}") as step:
                for batch in batches:
                    # The rows that will be in memory together: those of this batch, and those before it in
                    # the same row group.
                    if 0 < rows % ROW_GROUP <= ROW_GROUP - batch.num_rows:
                        size += batch.nbytes
                    else:
                        size = batch.nbytes
                    if size > LARGEST_ROW_GROUP:
                        where = f"{bad.name}, before {bad.unit} {batch[POSITION][-1].as_py():,}"
                        limit = f"{LARGEST_ROW_GROUP // MB:,} MB"
                        raise DataError(
                            f"{where}: up to {ROW_GROUP:,} rows take more than {limit}.", "Cut them."
                        )

                    filled = has_text(batch.columns[: len(columns.texts)])
                    labelled = labelled or has_labels(columns.task, batch[LABEL])
                    gaps = gaps or bool(batch[LABEL].null_count) or not pc.all(filled).as_py()
                    index = pa.array(np.arange(rows, rows + batch.num_rows))
                    rows += batch.num_rows
                    yield pa.record_batch([*batch.columns, index, filled], schema=schema)
                    step.advance(batch.num_rows)

    write_batches(path, schema, rebatch(numbered(), schema))
    return StagedSplit(split.name, origins, split.label_names, path, rows, labelled, gaps)


SCHEMA = pa.schema(
    [
        ("split", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("reason", pa.string()),
        ("content", pa.string()),
    ]
)
"""``split`` is a split of the source; ``line`` is the row number where rows are not lines."""
LONGEST = 500
"""Characters of the content."""


class SkippedRows:
    """Writes the rows that are left out, in batches.

    A broken record of a text file counts as many as it has lines.
    """

    def __init__(self, path: Path) -> None:
        self.count = 0
        self._writer = pq.ParquetWriter(path, SCHEMA, compression="zstd")
        self._waiting: list[dict[str, str | int]] = []

    def add(self, split: str, bad: BadRows, problem: RowProblem) -> None:
        """Add a row of a file of a split of the source."""
        self.count += problem.lines
        content = problem.content.rstrip("\r\n")
        if len(content) > LONGEST:
            content = content[:LONGEST] + "…"
        shown = content.encode(errors="backslashreplace").decode()  # bytes that are not text as codes
        self._waiting.append(
            {
                "split": split,
                "file": bad.name,
                "line": problem.line,
                "reason": problem.reason,
                "content": shown,
            }
        )
        if len(self._waiting) == ROW_GROUP:
            self._write()

    def close(self) -> None:
        """Write what is left."""
        self._write()
        self._writer.close()

    def _write(self) -> None:
        self._writer.write_batch(pa.RecordBatch.from_pylist(self._waiting, SCHEMA))
        self._waiting.clear()


@contextmanager
def open_skipped(path: Path) -> Iterator[SkippedRows]:
    """Open the file. It is also written if too many bad rows end the block: it has all that were read."""
    too_many: DataError | None = None
    with replace_file(path) as partial:
        skipped = SkippedRows(partial)
        try:
            yield skipped
        except DataError as error:
            if not skipped.count:
                raise
            too_many = error
        finally:
            skipped.close()
    if too_many is not None:
        raise too_many


def check_rows(staged: StagedSplit, columns: LabelledColumns) -> None:
    """Report the incomplete rows of a split of the source.

    Raises:
        DataError: A file has too many bad rows, or there are no rows.
    """
    incomplete: Counter[str] = Counter()
    if staged.gaps:
        for batch in staged.batches(0, staged.rows):
            _report(staged, columns, batch, incomplete)

    rows = staged.file_rows
    for _, bad in staged.origins:
        bad.check(rows[bad.name] - incomplete[bad.name])
    if staged.rows == 0:
        raise DataError(f"{staged.name} has no rows.", "Add rows, or name another split in data.splits.")


def _report(
    staged: StagedSplit, columns: LabelledColumns, batch: pa.RecordBatch, incomplete: Counter[str]
) -> None:
    rows = np.flatnonzero(~staged.complete(batch).to_numpy(zero_copy_only=False)).tolist()

    # columns by the names that the user knows, for messages
    texts = {}
    for position, name in enumerate(columns.texts):
        texts[name] = batch[f"text_{position}"]
    read = texts | {columns.label: batch[LABEL]}

    # what each incomplete row lacks
    values: dict[str, BadValues] = {}
    for row in rows:
        bad = staged.file(batch[INDEX][row].as_py())
        incomplete[bad.name] += 1
        file = values.setdefault(bad.name, BadValues(bad, batch[POSITION], read))
        missing = [name for name, text in texts.items() if not text[row].is_valid]
        if missing:
            file.add(row, repr(missing[0]), "no text (null)", HINT)
        elif not any(text[row].as_py().strip() for text in texts.values()):
            file.add(row, " and ".join(map(repr, texts)), "no text, or only white space", HINT)
        else:
            file.add(row, repr(columns.label), "no label", HINT)


SYNTAX = "https://huggingface.co/docs/datasets/loading#slice-splits"
_HINT = f"Write 'train', 'train[:90%]', 'train[100:200]' or a sum of slices: {SYNTAX}"
_NAME = re.compile(r"\w+(\.\w+)*", re.ASCII)


class SourceSlice(NamedTuple):
    """Rows ``start`` to ``stop`` (exclusive) of a source's split."""

    source: str
    start: int
    stop: int


def source_splits(split: str, spec: str) -> list[str]:
    """Return the names of the source's splits that a specification, such as ``train[:90%]``, uses."""
    if _NAME.fullmatch(spec):
        return [spec]
    names = [relative.splitname for relative in _instruction(split, spec)._relative_instructions]
    return list(dict.fromkeys(names))


def resolve_split(split: str, spec: str, rows: Mapping[str, int]) -> list[SourceSlice]:
    """Resolve the specification of a split of the pipeline to row numbers.

    Args:
        split: Name of the split, for messages.
        spec: Specification, such as ``train[:90%]``.
        rows: Number of rows of each split of the source.

    Raises:
        DataError: The specification selects no rows.
    """
    if _NAME.fullmatch(spec):
        slices = [SourceSlice(spec, 0, rows[spec])]
    else:
        try:
            absolute = _instruction(split, spec).to_absolute(dict(rows))
        except ValueError as error:
            raise DataError(f"data.splits.{split}: {spec!r}: {error}", _HINT) from None
        slices = []
        for part in absolute:
            if part.from_ < part.to:
                slices.append(SourceSlice(part.splitname, part.from_, part.to))
    if not any(part.stop > part.start for part in slices):
        sizes = []
        for name in source_splits(split, spec):
            sizes.append(f"{name!r} has {rows[name]:,}")
        raise DataError(
            f"data.splits.{split}: {spec!r} selects no rows.", f"Available rows: {', '.join(sizes)}."
        )
    return slices


def _instruction(split: str, spec: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a class of datasets, which has no types
    from datasets.arrow_reader import ReadInstruction

    try:
        return ReadInstruction.from_spec(spec)
    except ValueError as error:
        raise DataError(f"data.splits.{split}: {spec!r} is not a slice: {error}", _HINT) from None


def refuse_overlaps(slices: Mapping[str, list[SourceSlice]]) -> None:
    """Refuse rows that are in two splits, and name the first: the metrics would be too good."""
    for (first, first_slices), (second, second_slices) in combinations(slices.items(), 2):
        for left, right in product(first_slices, second_slices):
            start = max(left.start, right.start)
            stop = min(left.stop, right.stop)
            source = left.source
            if source == right.source and start < stop:
                raise DataError(
                    f"data.splits: rows {start:,} to {stop - 1:,} of {source!r} would be in both {first} and"
                    f" {second}.",
                    f"Separate them, for example {first}: '{source}[:90%]', {second}: '{source}[90%:]'.",
                )
