"""The data that the pipeline reads already: files, columns, hashes of the rows, and how classes are written.

New rows are compared with it: ``flows/ingestion/harvest.py``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple, Self

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
from tuneline.readers.files import is_url, shown
from tuneline.readers.formats import ENDINGS, data_input
from tuneline.readers.label_values import class_name
from tuneline.readers.labelled import LABEL, UNNAMED_CLASSES, LabelledColumns, labelled_rows
from tuneline.readers.rows import STOP, BadRowPolicy, BadRows
from tuneline.readers.tables import open_table
from tuneline.repository.worktrees import GitError
from tuneline.runtime.errors import DataError, ParamsError
from tuneline.runtime.wording import listed
from tuneline.tasks import Task, unnamed_task
from tuneline.tasks.columns import label_texts, observed_classes, staged_type

NO_HASH = np.uint64(0)
"""Hash of a key or label that is missing."""


class RowStatus(IntEnum):
    """What becomes of a row."""

    NEW = 0
    DUPLICATE = 1
    """A row with the same key or the same texts has the same label."""
    CONFLICT = 2
    """A row with the same key or the same texts has another label."""
    HELD_OUT = 3
    """Its texts are in validation or test, which are not for training."""


@dataclass(frozen=True)
class RowHashes:
    """Hashes of rows, each of shape ``(rows,)``.

    Attributes:
        texts: Hashes of the texts, as the division into splits compares texts: case, white space and the
            order of a pair make no difference.
        keys: Hashes of the values of column ``ingest.key``; ``NO_HASH`` for rows without a key.
        labels: Hashes of the labels; ``NO_HASH`` for rows without a label.
        held_out: True for rows of validation and test.
    """

    texts: Keys
    keys: Keys
    labels: Keys
    held_out: NDArray[np.bool_]

    @classmethod
    def of(
        cls, texts: list[pa.Array], labels: pa.Array, keys: pa.Array | None, *, held_out: bool = False
    ) -> Self:
        """Hash rows; their labels are text (``label_texts``)."""
        missing = np.zeros(len(labels), np.uint64)
        text_hashes = row_hashes(texts, None, 0) if len(labels) else missing
        key_hashes = missing if keys is None else hashes(keys)
        return cls(text_hashes, key_hashes, hashes(labels), np.full(len(labels), held_out))

    @classmethod
    def joined(cls, parts: "Sequence[RowHashes]") -> Self:
        """Join the rows of several parts."""
        missing = np.zeros(0, np.uint64)
        no_rows = cls(missing, missing, missing, np.zeros(0, np.bool_))
        parts = [no_rows, *parts]
        columns = {}
        for column in fields(cls):
            columns[column.name] = np.concatenate([getattr(part, column.name) for part in parts])
        return cls(**columns)


class _Index:
    """Identities (hashes of texts, or of keys) of the data and their labels, sorted for binary search."""

    def __init__(self, identities: Keys, labels: Keys) -> None:
        identified = identities != NO_HASH
        unlabelled = identified & (labels == NO_HASH)
        self._identities = np.unique(identities[identified])
        self._unlabelled = np.unique(identities[unlabelled])
        self._labelled = np.unique(mixed(identities[identified], labels[identified]))

    def find(self, identities: Keys, labels: Keys) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which rows are in the data, and which rows are there, but only with another label.

        A row that the data has without a label agrees with every label.
        """
        in_data = _isin(identities, self._identities)
        same_label = _isin(mixed(identities, labels), self._labelled)
        agrees = same_label | _isin(identities, self._unlabelled)
        return in_data, in_data & ~agrees


def _isin(values: Keys, ordered: Keys) -> NDArray[np.bool_]:
    """Return which values are in ``ordered``, whose values ascend.

    ``np.isin`` would sort them again for each small file.
    """
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    positions = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.asarray(ordered[positions] == values)


class _Origin(NamedTuple):
    """Where a new row comes from: the hash of its label, and the name of its file."""

    label: int
    file: str


@dataclass
class NewRowSelection:
    """Decides what becomes of the rows of a run, file after file: the first of several equal rows is new.

    Attributes:
        data: The rows that the data has.
        disagreeing: Row of the last file that was classified: the file of this run that has it with another
            label.
    """

    data: RowHashes
    disagreeing: dict[int, str] = field(default_factory=dict)
    _texts: dict[int, _Origin] = field(default_factory=dict)
    _keys: dict[int, _Origin] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_text = _Index(self.data.texts, self.data.labels)
        self._by_key = _Index(self.data.keys, self.data.labels)
        self._held_out = np.unique(self.data.texts[self.data.held_out])

    def classify(self, rows: RowHashes, name: str = "") -> NDArray[np.int8]:
        """Return the ``RowStatus`` of each row of a file, and remember the new ones."""
        self.disagreeing.clear()

        # against the data; the last of several assignments counts: a conflict is one in held-out rows, too
        statuses = np.full(len(rows.texts), RowStatus.NEW, np.int8)
        same_text, text_conflicts = self._by_text.find(rows.texts, rows.labels)
        same_key, key_conflicts = self._by_key.find(rows.keys, rows.labels)
        statuses[same_text | same_key] = RowStatus.DUPLICATE
        statuses[_isin(rows.texts, self._held_out)] = RowStatus.HELD_OUT
        statuses[text_conflicts | key_conflicts] = RowStatus.CONFLICT

        # against the earlier rows of the run
        texts = rows.texts.tolist()
        keys = rows.keys.tolist()
        labels = rows.labels.tolist()
        origins: dict[int, _Origin] = {}  # one object for all rows of a label, to save memory
        for row in np.flatnonzero(statuses == RowStatus.NEW).tolist():
            text = texts[row]
            key = keys[row]
            label = labels[row]
            candidates = (self._texts.get(text), self._keys.get(key) if key else None)
            earlier = [origin for origin in candidates if origin is not None]
            disagreeing = [origin.file for origin in earlier if origin.label != label]
            if disagreeing:
                statuses[row] = RowStatus.CONFLICT
                self.disagreeing[row] = disagreeing[0]
            elif earlier:
                statuses[row] = RowStatus.DUPLICATE
            else:
                origin = origins.setdefault(label, _Origin(label, name))
                self._texts[text] = origin
                if key:
                    self._keys[key] = origin
        return statuses


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
        by: Column with the group or the time, ``data.split.by`` or ``data.split.by_time``.
        key: Column with the key, ``ingest.key``.
        policy: What happens with bad rows.
        sets: How labels are written that are sets of names.
    """

    texts: tuple[str, ...]
    label: str
    task: Task = UNNAMED_CLASSES
    by: str | None = None
    key: str | None = None
    policy: BadRowPolicy = STOP
    sets: LabelSetsParams | None = None

    @classmethod
    def of(cls, data: DataParams, key: str | None) -> Self:
        """Return the columns that the parameters of the pipeline name."""
        by = data.split.column if data.split else None
        policy = BadRowPolicy(data.bad_rows, data.max_bad_share)
        texts = tuple(data.text_columns)
        return cls(texts, data.label_column, unnamed_task(data.task), by, key, policy, data.label_sets)

    @property
    def others(self) -> dict[str, str]:
        """Group and key, by column: the parameter that names it; not if it is a text column or the label."""
        parameters: dict[str, str] = {}
        for column, parameter in ((self.by, "data.split.by"), (self.key, "ingest.key")):
            if column and column != self.label and column not in self.texts:
                parameters.setdefault(column, parameter)
        return parameters

    @property
    def schema(self) -> pa.Schema:
        """Schema of a batch file."""
        types = dict.fromkeys(self.texts, pa.string())
        types[self.label] = staged_type(self.task)
        for column in self.others:
            types[column] = pa.string()
        return pa.schema(list(types.items()))

    def labelled(self, id_column: str | None = None) -> LabelledColumns:
        """Return the columns that are read of a file with new rows.

        A file with late labels has an ``id_column`` with the ids of its rows, and no texts.
        """
        texts = self.texts
        others = self.others
        if id_column is not None:
            texts = ()
            others[id_column] = "id of the source"
        return LabelledColumns(
            texts, self.label, self.task, others, sparse=True, policy=self.policy, sets=self.sets
        )

    def named(self, batch: pa.RecordBatch, read: LabelledColumns) -> dict[str, pa.Array]:
        """Return the columns of a batch of ``labelled_rows`` by the names of the user."""
        # The order in which ``labelled_rows`` has them, before the position.
        names = list(read.texts)
        names += read.others
        names.append(self.label)
        return dict(zip(names, batch.columns, strict=False))


_PLAIN = re.compile(r"[\w.-]+")
"""One split of the source, whole."""
_SPLIT = re.compile(r"([\w.-]+)(?:\[[^\]]*\])?")
"""A split of the source in a sum of splits, with its slice."""


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
            hint = (
                "Set up your own data with `tuneline init FILE`; a source with hub: true follows a data set"
                " of the hub."
            )
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
        train, held_out = _source_splits(data)

        if is_url(data.path or ""):
            hint = (
                "Put new files there yourself, and run `dvc repro -f download`; or set data.path to a folder"
                " of this repository."
            )
            raise ParamsError(
                f"data.path is {shown(str(data.path))}: new rows are added to files under {SOURCE}/.", hint
            )
        folder = Path(data.path or ".")
        if folder.parts[:2] != SOURCE.parts:
            folder = SOURCE / folder
        return cls(folder, train, held_out)

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
                hint = (
                    "Import the files that change by a source of flow ingest, or track the folder with `dvc"
                    " add`."
                )
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


def _source_splits(data: DataParams) -> tuple[str, tuple[str, ...]]:
    """Return the split of the source that gets new rows, and the splits that are held out.

    Raises:
        ParamsError: New rows could change the split of other rows.
    """
    specs = data.source_specs
    train = specs.pop("train")
    if not _PLAIN.fullmatch(train):
        raise ParamsError(
            f"data.splits.train is {train!r}: new rows need one split of the source.",
            "Name one, without slices or sums.",
        )
    names: list[str] = []
    for spec in specs.values():
        names += _SPLIT.findall(spec)
    if train in names:
        hint = (
            "Divide it with data.split (stratify: false) instead of slices: the split of a row then"
            " follows from the row alone."
        )
        raise ParamsError(
            f"data.splits: {train!r} gives more than one split, so new rows would move others.", hint
        )
    return train, tuple(dict.fromkeys(names))


def _ignored(root: Path, repository: Repository, path: Path) -> bool:
    """Return True if git ignores the ``.dvc`` file of a folder."""
    with suppress(GitError):  # exit code 1: git does not ignore it
        repository.git("check-ignore", "--quiet", f"{path}.dvc", cwd=root)
        return True
    return False


def read_known(
    root: Path, layout: DataLayout, columns: BatchColumns, files: FilesParams, log: Callable[[str], None]
) -> tuple[RowHashes, frozenset[str]]:
    """Return the hashes of the rows of every split in a checkout, and the classes of the training rows.

    Raises:
        DataError: A file cannot be read.
    """
    parts: list[RowHashes] = []
    labels: set[str] = set()
    for split in layout.splits:
        for path in layout.files(root, split):
            for texts, label, keys in known_rows(path, columns, files):
                written = label_texts(columns.task, label)
                parts.append(RowHashes.of(texts, written, keys, held_out=split != layout.split))
                if split == layout.split:
                    labels.update(observed_classes(columns.task, label))
    rows = RowHashes.joined(parts)
    log(f"The data has {len(rows.texts):,} rows.")
    return rows, frozenset(labels)


def known_rows(
    path: Path, columns: BatchColumns, files: FilesParams
) -> Iterator[tuple[list[pa.Array], pa.Array, pa.Array | None]]:
    """Yield texts, labels and keys of a file of the data.

    The file may lack the columns with label, group and key. Stage ``download`` limits the share of bad rows.
    """
    read = replace(
        columns.labelled(),
        optional=(columns.label, *columns.others),
        policy=replace(columns.policy, max_share=1.0),
    )
    source = data_input(path, files)
    with open_table(source) as table:
        for batch in labelled_rows(table, read, BadRows(table.name, source.unit, read.policy)):
            named = columns.named(batch, read)
            texts = [pc.fill_null(named[name], "") for name in columns.texts]
            keys = named[columns.key] if columns.key else None
            yield texts, batch[LABEL], keys


@dataclass(frozen=True)
class ClassNames:
    """How the label of a new row is written in the data.

    Attributes:
        written: By each label that a source may give, the label in the data; ``None`` if any label is written
            as it is.
    """

    written: Mapping[str, str] | None

    @classmethod
    def of(cls, data: DataParams, labels: frozenset[str]) -> "ClassNames":
        """Return the classes of ``data.label_names``, by name or id, else the labels that the data has.

        Without both, any label is written as it is.
        """
        if not data.label_names:
            if data.label_sets is not None and data.label_sets.names is not None:
                labels = frozenset(data.label_sets.names)  # also one that no row has
            return cls({label: label for label in labels} if labels else None)

        names_by_id: dict[str, str] = {}
        names_by_name: dict[str, str] = {}
        ids_by_name: dict[str, str] = {}
        ids_by_id: dict[str, str] = {}
        for position, name in enumerate(data.label_names):
            number = str(position)
            names_by_id[number] = name
            names_by_name[str(class_name(name))] = name
            ids_by_name[name] = number
            ids_by_id[number] = number
        # Files may have ids, as stage download understands them.
        has_ids = labels <= names_by_id.keys() and not labels <= names_by_name.keys()
        if labels and has_ids:
            return cls(ids_by_name | ids_by_id)
        return cls(names_by_id | names_by_name)

    def translate(self, labels: pa.Array, place: Callable[[int], str]) -> pa.Array:
        """Return labels as they are written in the data.

        Raises:
            DataError: A label is not a class; the message has its ``place``.
        """
        if self.written is None:
            return labels

        written: list[str | list[str]] = []
        for row, label in enumerate(labels.to_pylist()):
            if isinstance(label, list):
                names = {self._name(self.written, name, place, row) for name in label}
                written.append(sorted(names))
            else:
                written.append(self._name(self.written, label, place, row))
        return pa.array(written, labels.type)

    @staticmethod
    def _name(written: Mapping[str, str], label: str, place: Callable[[int], str], row: int) -> str:
        """Return a class as it is written in the data."""
        if label not in written:
            classes = listed(sorted(set(written.values())))
            hint = (
                f"It is {label!r}. Correct it; a new class must be listed in data.label_names,"
                " with all others."
            )
            raise DataError(f"{place(row)}: the label is not one of {classes}.", hint)
        return written[label]
