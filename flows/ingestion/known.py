"""The data that the pipeline reads already: files, columns, hashes of the rows, and how classes are written.

New rows are compared with it: ``flows/ingestion/harvest.py``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flows.runs.repository import Repository
from tuneline.analysis.splitting import hashes, row_hashes
from tuneline.analysis.text import Keys, mixed
from tuneline.core.yaml_files import read_yaml
from tuneline.params.data import DataParams, FilesParams, LabelSetsParams
from tuneline.paths import SOURCE
from tuneline.readers.formats import ENDINGS, data_input
from tuneline.readers.label_values import class_name
from tuneline.readers.labelled import LABEL, UNNAMED_CLASSES, LabelledColumns, labelled_rows
from tuneline.readers.rows import STOP, BadRowPolicy, BadRows
from tuneline.readers.tables import open_table
from tuneline.repository.git import GitError
from tuneline.runtime.errors import DataError, ParamsError
from tuneline.runtime.wording import listed
from tuneline.tasks import Task, unnamed_task
from tuneline.tasks.columns import label_texts, observed_classes, staged_type
from tuneline.words.label_texts import staged_text

Log = Callable[[str], None]
NO_HASH = np.uint64(0)
"""Hash of a label that is missing."""


class RowStatus(IntEnum):
    """What becomes of a row."""

    NEW = 0
    DUPLICATE = 1
    """A row with the same texts has the same label."""
    CONFLICT = 2
    """A row with the same texts has another label."""
    HELD_OUT = 3
    """Its texts are in validation or test, which are not for training."""


@dataclass(frozen=True)
class RowHashes:
    """Hashes of rows, each of shape ``(rows,)``.

    Attributes:
        texts: Hashes of the texts, as the division into splits compares texts: case, white space and the
            order of a pair make no difference.
        labels: Hashes of the labels; ``NO_HASH`` for rows without a label.
        held_out: True for rows of validation and test.
    """

    texts: Keys
    labels: Keys
    held_out: NDArray[np.bool_]

    @classmethod
    def of(cls, texts: list[pa.Array], labels: pa.Array, *, held_out: bool = False) -> Self:
        """Hash rows; their labels are text (``label_texts``)."""
        text_hashes = row_hashes(texts, None, 0) if len(labels) else np.zeros(0, np.uint64)
        return cls(text_hashes, hashes(labels), np.full(len(labels), held_out))


@dataclass
class KnownRows:
    """The rows that the data has, and the new ones of this run: the first of several equal ones is new.

    Attributes:
        classes: The classes of the training rows.
        label_names: Labels by their hashes.
    """

    classes: frozenset[str]
    label_names: dict[int, str]
    _texts: Keys
    _labels: Keys
    _pairs: Keys
    _held_out: Keys
    _new: dict[int, int] = field(default_factory=dict)

    @classmethod
    def read(
        cls, root: Path, layout: "DataLayout", columns: "BatchColumns", files: FilesParams, log: Log
    ) -> Self:
        """Read every split in a checkout.

        Raises:
            DataError: A file cannot be read.
        """
        none = np.zeros(0, np.uint64)
        parts = [RowHashes(none, none, np.zeros(0, np.bool_))]
        classes: set[str] = set()
        label_names: dict[int, str] = {}
        for split in layout.splits:
            for path in layout.files(root, split):
                for texts, label in known_rows(path, columns, files):
                    written = label_texts(columns.task, label)
                    part = RowHashes.of(texts, written, held_out=split != layout.split)
                    parts.append(part)
                    name_labels(label_names, part, columns.task, label)
                    if split == layout.split:
                        classes.update(observed_classes(columns.task, label))

        texts_of_all = np.concatenate([part.texts for part in parts])
        labels = np.concatenate([part.labels for part in parts])
        held_out = np.concatenate([part.held_out for part in parts])
        log(f"The data has {len(texts_of_all):,} rows.")
        order = np.argsort(texts_of_all, kind="stable")
        pairs = np.unique(mixed(texts_of_all, labels))
        held_out_texts = np.unique(texts_of_all[held_out])
        return cls(frozenset(classes), label_names, texts_of_all[order], labels[order], pairs, held_out_texts)

    def classify(self, rows: RowHashes, new: dict[int, int]) -> NDArray[np.int8]:
        """Return the ``RowStatus`` of each row, and add the new ones to ``new``: their labels, by texts."""
        # against the data; the last of several assignments counts: a conflict is one in held-out rows, too
        statuses = np.full(len(rows.texts), RowStatus.NEW, np.int8)
        in_data = _isin(rows.texts, self._texts)
        agrees = _isin(mixed(rows.texts, rows.labels), self._pairs)
        # A row that the data has without a label agrees with every label.
        agrees |= _isin(mixed(rows.texts, np.full_like(rows.labels, NO_HASH)), self._pairs)
        statuses[in_data] = RowStatus.DUPLICATE
        statuses[_isin(rows.texts, self._held_out)] = RowStatus.HELD_OUT
        statuses[in_data & ~agrees] = RowStatus.CONFLICT

        # against the earlier rows of the run
        for row in np.flatnonzero(statuses == RowStatus.NEW).tolist():
            text = int(rows.texts[row])
            label = int(rows.labels[row])
            earlier = self._new.get(text, new.get(text))
            if earlier is None:
                new[text] = label
            elif earlier == label:
                statuses[row] = RowStatus.DUPLICATE
            else:
                statuses[row] = RowStatus.CONFLICT
        return statuses

    def add(self, new: dict[int, int]) -> None:
        """Remember the new rows of a file that could be read to its end."""
        self._new.update(new)

    def label(self, text: int, new: dict[int, int]) -> str:
        """Return the label that the row with these texts has: in the data, else in the new rows."""
        position = int(np.searchsorted(self._texts, np.uint64(text)))
        if position < len(self._texts) and int(self._texts[position]) == text:
            label = int(self._labels[position])
        else:
            label = self._new.get(text, new.get(text, 0))
        return self.label_names.get(label, "")


def name_labels(names: dict[int, str], rows: RowHashes, task: Task, labels: pa.Array) -> None:
    """Add the labels of rows, as people write them, to the names of labels by their hashes."""
    for value, row in zip(*np.unique(rows.labels, return_index=True), strict=True):
        label = labels[int(row)].as_py()
        if label is not None:
            names.setdefault(int(value), staged_text(task, label))


def _isin(values: Keys, ordered: Keys) -> NDArray[np.bool_]:
    """Return which values are in ``ordered``, whose values ascend.

    ``np.isin`` would sort them again for each small file.
    """
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    positions = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.asarray(ordered[positions] == values)


def ending_of(name: str) -> str | None:
    """Return the ending of a file that can be read, such as ``.csv.gz``; ``None`` for any other."""
    # The longest first: ``.csv.gz`` also ends with ``.gz``.
    for ending in sorted(ENDINGS, key=len, reverse=True):
        if name.lower().endswith(ending):
            return ending
    return None


@dataclass(frozen=True)
class BatchColumns:
    """The columns of a batch file, by the names that the user's data have.

    Attributes:
        texts: Columns with texts.
        label: Column with the label.
        task: The task, which tells the type of a label; its classes need not be known.
        by: Column with the group or the time, ``data.split.by`` or ``data.split.by_time``; ``None`` if it is
            a text column or the label.
        policy: What happens with bad rows.
        sets: How labels are written that are sets of names.
    """

    texts: tuple[str, ...]
    label: str
    task: Task = UNNAMED_CLASSES
    by: str | None = None
    policy: BadRowPolicy = STOP
    sets: LabelSetsParams | None = None

    @classmethod
    def of(cls, data: DataParams) -> Self:
        """Return the columns that the parameters of the pipeline name."""
        texts = tuple(data.text_columns)
        by = data.split.column if data.split else None
        if by == data.label_column or by in texts:
            by = None
        policy = BadRowPolicy(data.max_bad_share)
        return cls(texts, data.label_column, unnamed_task(data.task), by, policy, data.label_sets)

    @property
    def schema(self) -> pa.Schema:
        """Schema of a batch file."""
        types = dict.fromkeys(self.texts, pa.string())
        types[self.label] = staged_type(self.task)
        if self.by:
            types[self.by] = pa.string()
        return pa.schema(list(types.items()))

    def labelled(self) -> LabelledColumns:
        """Return the columns that are read of a file with new rows."""
        others = [self.by] if self.by else []
        return LabelledColumns(self.texts, self.label, self.task, others, policy=self.policy, sets=self.sets)

    def named(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the columns of a batch of ``labelled_rows`` by the names of the user."""
        # The order in which ``labelled_rows`` has them, before the position.
        names = [*self.texts]
        if self.by:
            names.append(self.by)
        names.append(self.label)
        return dict(zip(names, batch.columns, strict=False))


@dataclass(frozen=True)
class DataLayout:
    """The files of ``data.source: files``, relative to the root of a checkout.

    Attributes:
        folder: ``data/source/PATH``.
        split: Split of the source that gets new rows: ``data.splits.train``.
        held_out: The other splits of the source: their rows are not for training.
    """

    folder: Path
    split: str
    held_out: tuple[str, ...]

    @classmethod
    def of(cls, data: DataParams) -> "DataLayout":
        """Return the layout for the parameters.

        Raises:
            ParamsError: New rows cannot be added, or could change the split of other rows.
        """
        if data.source != "files":
            hint = "Set up your own data with `tuneline init FILE`."
            raise ParamsError(
                f"data.source is {data.source!r}: new rows are added to files under {SOURCE}/.", hint
            )
        if data.split is not None and data.split.stratify:
            hint = (
                "Set it to false: the split of a row then follows from the row alone (docs/your-data.md),"
                " once and for all."
            )
            raise ParamsError(
                "data.split.stratify is true: added rows would move a few others to another split.", hint
            )
        specs = data.source_specs
        train = specs.pop("train")
        folder = Path(data.path or ".")
        if folder.parts[:2] != SOURCE.parts:
            folder = SOURCE / folder
        return cls(folder, train, tuple(specs.values()))

    @property
    def splits(self) -> tuple[str, ...]:
        """All splits of the source."""
        return (self.split, *self.held_out)

    @property
    def batches(self) -> Path:
        """Folder of the batch files."""
        return self.folder / self.split

    def files(self, root: Path, split: str) -> list[Path]:
        """List the files of a split of the source: the one that is named after it, then its batches."""
        folder = root / self.folder
        single = [
            path
            for path in folder.glob(f"{split}.*")
            if ending_of(path.name) == path.name.removeprefix(split)
        ]
        batches = [path for path in (folder / split).glob("[!.]*") if ending_of(path.name)]
        return sorted(single) + sorted(batches)

    def tracked(self, root: Path, repository: Repository) -> Path:
        """Return the folder to ``dvc add``.

        It is the folder that is tracked already, else the smallest whose ``.dvc`` file git does not ignore.

        Raises:
            DataError: Rows cannot be added to what is tracked.
        """
        # from the folder of the batches up to the one below ``data/source``
        candidates = [self.batches]
        candidates += [folder for folder in self.batches.parents if SOURCE in folder.parents]

        for path in candidates:
            if not (root / f"{path}.dvc").exists():
                continue
            if "deps" in read_yaml(root / f"{path}.dvc"):
                hint = "Track the folder with `dvc add`."
                raise DataError(
                    f"{path}.dvc is an import of DVC, which the next `dvc update` would replace.", hint
                )
            return path

        if (repository.root / self.folder).is_dir() and not (root / self.folder).is_dir():
            hint = f"`dvc add {candidates[-1]}` and commit {candidates[-1]}.dvc."
            raise DataError(
                f"{self.folder} is in no commit: a run would not have the rows that are there.", hint
            )
        for path in candidates:
            if not _ignored(root, repository, path):
                return path
        return candidates[-1]


def _ignored(root: Path, repository: Repository, path: Path) -> bool:
    """Return True if git ignores the ``.dvc`` file of a folder."""
    with suppress(GitError):  # exit code 1: git does not ignore it
        repository.git("check-ignore", "--quiet", f"{path}.dvc", cwd=root)
        return True
    return False


def known_rows(
    path: Path, columns: BatchColumns, files: FilesParams
) -> Iterator[tuple[list[pa.Array], pa.Array]]:
    """Yield texts and labels of a file of the data.

    The file may lack the columns with label and group. Stage ``download`` limits the share of bad rows.
    """
    read = columns.labelled()
    optional = (columns.label, *read.others)
    read = replace(read, optional=optional, policy=replace(columns.policy, max_share=1.0))
    source = data_input(path, files)
    with open_table(source) as table:
        for batch in labelled_rows(table, read, BadRows(table.name, source.unit, read.policy)):
            named = columns.named(batch)
            yield [pc.fill_null(named[name], "") for name in columns.texts], batch[LABEL]


def class_names(data: DataParams, classes: frozenset[str]) -> dict[str, str]:
    """Return how the data writes each label that a new row may have; empty if any label may be new.

    These are the classes of ``data.label_names``, by name or id, else the classes that the data has.
    """
    if not data.label_names:
        if data.label_sets is not None and data.label_sets.columns is not None:
            classes = frozenset(data.label_sets.columns)  # also one that no row has
        return {label: label for label in classes}

    by_id: dict[str, str] = {}
    by_name: dict[str, str] = {}
    ids: dict[str, str] = {}
    for position, name in enumerate(data.label_names):
        by_id[str(position)] = name
        by_name[str(class_name(name))] = name
        ids[name] = ids[str(position)] = str(position)
    # Files may have ids, as stage download understands them.
    if classes and classes <= by_id.keys() and not classes <= by_name.keys():
        return ids
    return by_id | by_name


def with_class_names(
    labels: pa.Array, written: Mapping[str, str], places: Sequence[str], column: str
) -> pa.Array:
    """Return labels as they are written in the data.

    Raises:
        DataError: A label is not a class; the message has its place and column.
    """
    if not written:
        return labels

    def name(row: int, label: str) -> str:
        if label not in written:
            classes = listed(sorted(set(written.values())))
            hint = "Correct it; a new class must be listed in data.label_names, with all others."
            raise DataError(f"{places[row]}, column {column!r}: the label is not one of {classes}.", hint)
        return written[label]

    named: list[str | list[str]] = []
    for row, label in enumerate(labels.to_pylist()):
        if isinstance(label, list):
            named.append(sorted({name(row, element) for element in label}))
        else:
            named.append(name(row, label))
    return pa.array(named, labels.type)
