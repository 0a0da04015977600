"""The data that the pipeline reads already: its files and columns, hashes of its rows, and how it writes its classes."""

import re
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
from tuneline.core.errors import DataError, ParamsError
from tuneline.core.paths import SOURCE
from tuneline.core.yaml_files import read_yaml
from tuneline.params.data import DataParams, FilesParams
from tuneline.project.worktrees import GitError
from tuneline.readers.files import is_url, shown
from tuneline.readers.inputs import Input, open_table
from tuneline.readers.labelled import LABEL, LabelledColumns, class_name, labelled_rows
from tuneline.readers.rows import ENDINGS, STOP, BadRowPolicy, BadRows, listed
from tuneline.tasks import TASKS, Classification, Task

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
        texts: Of the texts, as the division into splits compares them: case, white space and the order of a
            pair make no difference.
        held: True for rows of validation and test.
    """

    texts: Keys
    keys: Keys
    labels: Keys
    held: NDArray[np.bool_]

    @classmethod
    def of(
        cls, texts: list[pa.Array], labels: pa.Array, keys: pa.Array | None, *, held: bool = False
    ) -> Self:
        """Hash rows."""
        none = np.zeros(len(labels), np.uint64)
        hashed = row_hashes(texts, None, 0) if len(labels) else none
        named = labels if pa.types.is_string(labels.type) else labels.cast(pa.string())
        return cls(hashed, none if keys is None else hashes(keys), hashes(named), np.full(len(labels), held))

    @classmethod
    def joined(cls, parts: "Sequence[RowHashes]") -> Self:
        """Join the rows of several parts."""
        none = np.zeros(0, np.uint64)
        parts = [cls(none, none, none, np.zeros(0, np.bool_)), *parts]
        texts, keys, labels = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("texts", "keys", "labels")
        )
        return cls(texts, keys, labels, np.concatenate([part.held for part in parts]))


class _Index:
    """Identities (texts or keys) of the data, sorted, and their labels."""

    def __init__(self, identities: Keys, labels: Keys) -> None:
        present = identities != NO_HASH
        self._identities = np.unique(identities[present])
        self._unlabelled = np.unique(identities[present & (labels == NO_HASH)])
        self._labelled = np.unique(mixed(identities[present], labels[present]))

    def find(self, identities: Keys, labels: Keys) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which rows are in the data, and which of them only with another label."""
        found = _isin(identities, self._identities)
        same = _isin(mixed(identities, labels), self._labelled) | _isin(identities, self._unlabelled)
        return found, found & ~same


def _isin(values: Keys, known: Keys) -> NDArray[np.bool_]:
    """Return which values are in ``known``, which is sorted; ``np.isin`` would sort it again for each small file."""
    if not len(known):
        return np.zeros(len(values), np.bool_)
    return np.asarray(known[np.minimum(np.searchsorted(known, values), len(known) - 1)] == values)


@dataclass
class NewRowSelection:
    """Judges the rows of a run, after those that the data has, file after file: the first of several equal rows is new.

    Attributes:
        disagreeing: Row of the last file that was judged: the file of this run that has it with another
            label.
    """

    known: RowHashes
    disagreeing: dict[int, str] = field(default_factory=dict)
    _texts: dict[int, tuple[int, str]] = field(default_factory=dict)
    _keys: dict[int, tuple[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = self.known
        self._by_text, self._by_key = _Index(known.texts, known.labels), _Index(known.keys, known.labels)
        self._held = np.unique(known.texts[known.held])

    def classify(self, rows: RowHashes, name: str = "") -> NDArray[np.int8]:
        """Return the ``RowStatus`` of each row of a file, and remember the new ones."""
        self.disagreeing.clear()
        origins: dict[int, tuple[int, str]] = {}  # one object for all rows of a label
        statuses = np.full(len(rows.texts), RowStatus.NEW, np.int8)
        text_found, text_conflicts = self._by_text.find(rows.texts, rows.labels)
        key_found, key_conflicts = self._by_key.find(rows.keys, rows.labels)
        statuses[text_found | key_found] = RowStatus.DUPLICATE
        statuses[_isin(rows.texts, self._held)] = RowStatus.HELD_OUT
        statuses[text_conflicts | key_conflicts] = RowStatus.CONFLICT
        columns = (rows.texts.tolist(), rows.keys.tolist(), rows.labels.tolist())
        for row in np.flatnonzero(statuses == RowStatus.NEW).tolist():
            text, key, label = (column[row] for column in columns)
            earlier = [
                found
                for found in (self._texts.get(text), self._keys.get(key) if key else None)
                if found is not None
            ]
            if (other := next((file for known, file in earlier if known != label), None)) is not None:
                statuses[row], self.disagreeing[row] = RowStatus.CONFLICT, other
            elif earlier:
                statuses[row] = RowStatus.DUPLICATE
            else:
                self._texts[text] = origins.setdefault(label, (label, name))
                if key:
                    self._keys[key] = self._texts[text]
        return statuses


def ending_of(name: str) -> str | None:
    """Return the ending of a file that can be read, such as ``.csv.gz``; ``None`` for any other."""
    return next(
        (ending for ending in sorted(ENDINGS, key=len, reverse=True) if name.lower().endswith(ending)), None
    )


@dataclass(frozen=True)
class BatchColumns:
    """The columns of a batch file, by the names that the user's data have; the group is ``data.split.by``, the key ``ingest.key``."""

    texts: tuple[str, ...]
    label: str
    kind: type[Task] = Classification
    by: str | None = None
    key: str | None = None
    policy: BadRowPolicy = STOP

    @classmethod
    def of(cls, data: DataParams, key: str | None) -> Self:
        """Return the columns that the parameters of the pipeline name."""
        by = data.split.by if data.split else None
        policy = BadRowPolicy(data.bad_rows, data.max_bad_share)
        return cls(tuple(data.text_columns), data.label_column, TASKS[data.task], by, key, policy)

    @property
    def others(self) -> dict[str, str]:
        """The group and the key, where there are any and they are no text column or label: for each, the parameter that names it."""
        given = {self.key: "ingest.key", self.by: "data.split.by"}
        return {
            name: given[name]
            for name in (self.by, self.key)
            if name and name not in (*self.texts, self.label)
        }

    @property
    def schema(self) -> pa.Schema:
        """Schema of a batch file."""
        types = dict.fromkeys((*self.texts, self.label, *self.others), pa.string())
        types[self.label] = self.kind.staged_type
        return pa.schema([pa.field(name, kind) for name, kind in types.items()])

    def labelled(self, id_column: str | None = None) -> LabelledColumns:
        """Return what is read of a file with new rows; with the column of their ids, of one with late labels."""
        others = self.others | ({} if id_column is None else {id_column: "id of the source"})
        texts = self.texts if id_column is None else ()
        return LabelledColumns(texts, self.label, self.kind, others, sparse=True, policy=self.policy)

    def named(self, batch: pa.RecordBatch, read: LabelledColumns) -> dict[str, pa.Array]:
        """Return the columns of a batch of ``labelled_rows`` by the names of the user."""
        return dict(zip((*read.texts, *read.others, self.label), batch.columns, strict=False))


_PLAIN = re.compile(r"[\w.-]+")


@dataclass(frozen=True)
class DataLayout:
    """The files of ``data.source: files``, relative to the root of a checkout.

    Attributes:
        folder: ``data/source/PATH``.
        split: Split of the source that gets new rows: ``data.splits.train``.
        held: The other splits of the source: rows that are there are not for training.
    """

    folder: Path
    split: str
    held: tuple[str, ...]

    @classmethod
    def of(cls, data: DataParams) -> "DataLayout":
        """Return the layout for the parameters; a ``ParamsError`` if new rows could change the split of other rows."""
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
        specs = data.source_specs
        train = specs.pop("train")
        if not _PLAIN.fullmatch(train):
            raise ParamsError(
                f"data.splits.train is {train!r}: new rows need one split of the source.",
                "Name one, without slices or sums.",
            )
        held = tuple(
            dict.fromkeys(
                name for spec in specs.values() for name in re.findall(r"([\w.-]+)(?:\[[^\]]*\])?", spec)
            )
        )
        if train in held:
            hint = (
                "Divide it with data.split (stratify: false) instead of slices: the split of a row then"
                " follows from the row alone."
            )
            raise ParamsError(
                f"data.splits: {train!r} gives more than one split, so new rows would move others.", hint
            )
        if is_url(data.path or ""):
            hint = (
                "Put new files there yourself, and run `dvc repro -f download`; or set data.path to a folder"
                " of this repository."
            )
            raise ParamsError(
                f"data.path is {shown(str(data.path))}: new rows are added to files under {SOURCE}/.", hint
            )
        given = Path(data.path or ".")
        return cls(given if given.parts[:2] == SOURCE.parts else SOURCE / given, train, held)

    @property
    def batches(self) -> Path:
        """Folder of the batch files."""
        return self.folder / self.split

    def files(self, root: Path, split: str) -> list[Path]:
        """List the files of a split of the source: the one that is named after it, then its batches."""
        single = [
            path
            for path in (root / self.folder).glob(f"{split}.*")
            if ending_of(path.name) == path.name.removeprefix(split)
        ]
        return sorted(single) + sorted(
            path for path in (root / self.folder / split).glob("[!.]*") if ending_of(path.name)
        )

    def tracked(self, root: Path, repository: Repository) -> Path:
        """Return the folder to ``dvc add``: the one that is tracked already, else the smallest whose ``.dvc`` file git does not ignore.

        Raises:
            DataError: Rows cannot be added to what is tracked.
        """
        candidates = [
            path
            for path in (self.batches, *self.batches.parents)
            if path != SOURCE and SOURCE in path.parents
        ]
        tracked = next((path for path in candidates if (root / f"{path}.dvc").exists()), None)
        if tracked is not None and "deps" in read_yaml(root / f"{tracked}.dvc"):
            hint = (
                "Import the files that change by a source of flow ingest, or track the folder with `dvc add`."
            )
            raise DataError(
                f"{tracked}.dvc is an import of DVC, which the next `dvc update` would replace.", hint
            )
        if tracked is None and (repository.root / self.folder).is_dir() and not (root / self.folder).is_dir():
            hint = f"`dvc add {candidates[-1]}` and commit {candidates[-1]}.dvc."
            raise DataError(
                f"{self.folder} is in no commit: a run would not have the rows that are there.", hint
            )
        return tracked or next(
            (path for path in candidates if not _ignored(root, repository, path)), candidates[-1]
        )


def _ignored(root: Path, repository: Repository, path: Path) -> bool:
    with suppress(GitError):  # exit code 1: it is not
        repository.git("check-ignore", "--quiet", f"{path}.dvc", cwd=root)
        return True
    return False


def read_known(
    root: Path, layout: DataLayout, columns: BatchColumns, files: FilesParams, log: Callable[[str], None]
) -> tuple[RowHashes, frozenset[str]]:
    """Return the hashes of the rows of every split in a checkout, and the labels of the split that gets new rows, if they are classes.

    Raises:
        DataError: A file cannot be read.
    """
    parts: list[RowHashes] = []
    labels: set[str] = set()
    for split in (layout.split, *layout.held):
        for path in layout.files(root, split):
            for texts, label, keys in known_rows(path, columns, files):
                parts.append(RowHashes.of(texts, label, keys, held=split != layout.split))
                if split == layout.split:
                    labels.update(columns.kind.observed(label))
    rows = RowHashes.joined(parts)
    log(f"The data has {len(rows.texts):,} rows.")
    return rows, frozenset(labels)


def known_rows(
    path: Path, columns: BatchColumns, files: FilesParams
) -> Iterator[tuple[list[pa.Array], pa.Array, pa.Array | None]]:
    """Yield texts, labels and keys of a file of the data.

    Neither labels nor keys need be there; stage ``download`` limits the share of bad rows.
    """
    read = replace(
        columns.labelled(),
        optional=(columns.label, *columns.others),
        policy=replace(columns.policy, max_share=1.0),
    )
    source = Input.of_data(path, files)
    with open_table(source) as table:
        for batch in labelled_rows(table, read, BadRows(table.name, source.unit, read.policy)):
            named = columns.named(batch, read)
            yield (
                [pc.fill_null(named[name], "") for name in columns.texts],
                batch[LABEL],
                named[columns.key] if columns.key else None,
            )


@dataclass(frozen=True)
class ClassNames:
    """How a label of a new row is written in the data: by label as a source may give it.

    ``None``: any label as it is.
    """

    written: Mapping[str, str] | None

    @classmethod
    def of(cls, data: DataParams, labels: frozenset[str]) -> "ClassNames":
        """Return the classes of ``data.label_names``, by name or id, else those that the data has; any label where it has none."""
        if not (data.label_names or labels):
            return cls(None)
        if not data.label_names:
            return cls({label: label for label in labels})
        ids = {str(position): name for position, name in enumerate(data.label_names)}
        names = {str(class_name(name)): name for name in data.label_names}
        if (
            labels and labels <= ids.keys() and not labels <= names.keys()
        ):  # the files have ids, as stage download understands them
            return cls({name: number for number, name in ids.items()} | {number: number for number in ids})
        return cls(ids | names)

    def translate(self, labels: pa.Array, place: Callable[[int], str]) -> pa.Array:
        """Return labels as they are written in the data; a ``DataError`` names the ``place`` of one that is not a class."""
        if self.written is None:
            return labels
        given: Sequence[str] = labels.to_pylist()
        for row, name in enumerate(given):
            if name not in self.written:
                hint = (
                    f"It is {name!r}. Correct it; a new class must be listed in data.label_names, with all"
                    " others."
                )
                raise DataError(
                    f"{place(row)}: the label is not one of {listed(sorted(set(self.written.values())))}.",
                    hint,
                )
        return pa.array([self.written[name] for name in given], pa.string())
