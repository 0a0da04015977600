"""What ``tuneline init`` is going to write, worked out before anything is written."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuneline.cli.init.deciding import Decision, Task, decide
from tuneline.cli.init.layout import Layout, recognise
from tuneline.cli.init.profiling import Profile, profile
from tuneline.cli.init.rows import Row, RowFile, open_rows
from tuneline.cli.init.splitting import assign, keys_of
from tuneline.errors import DataError
from tuneline.paths import SOURCE, SPLITS

SHARES = {"validation": 0.1, "test": 0.1}
"""Cut off train where no file of their own is given."""
ALIASES = {"train": "train|training", "validation": "validation|valid|val|dev", "test": "test"}
SHOWN = 5


@dataclass(frozen=True)
class Asked:
    """What a person said on the command line."""

    text: tuple[str, ...] = ()
    label: str | None = None
    task: Task | None = None
    header: bool | None = None
    seed: int = 42


@dataclass(frozen=True)
class Piece:
    """One of the files, and the split of each of its rows (``None``: left out)."""

    file: RowFile
    parts: Sequence[str | None]


@dataclass(frozen=True)
class Plan:
    """All that will be written.

    Attributes:
        layout: Of every file.
        decision: What the columns are taken for.
        profiles: The columns of the train file.
        columns, first: Its columns, and its first rows.
        pieces: Files and where their rows go.
        classes: Per split, rows per class; one class ``""`` in a regression.
        notes: What a person should know.
    """

    layout: Layout
    decision: Decision
    profiles: Sequence[Profile]
    columns: Sequence[str]
    first: Sequence[Row]
    pieces: Sequence[Piece]
    classes: Mapping[str, Counter[str]]
    notes: list[str] = field(default_factory=list)

    def target(self, folder: Path, split: str) -> Path:
        """The file of a split."""
        return folder / f"{split}{self.layout.suffix}"

    def write(self, folder: Path) -> None:
        """Fills an empty folder."""
        for piece in self.pieces:
            targets = {split: self.target(folder, split) for split in SPLITS if split in set(piece.parts)}
            piece.file.divide(piece.parts, targets)


def plan(files: Sequence[Path], asked: Asked) -> Plan:
    """Reads the files through and decides.

    Raises:
        DataError: They cannot be used, or do not tell enough; the hint says what to add.
    """
    given = {split: open_rows(path, layout) for split, (path, layout) in with_layouts(by_split(files), asked.header).items()}
    train = given["train"]
    profiles = profile(train.columns, train.rows())
    if not profiles or profiles[0].rows == 0:
        raise DataError(f"{train.path} has no rows.", "Give it some.")
    decision = decide(profiles, asked.text, asked.label, asked.task)
    notes: list[str] = []
    pieces, classes = pieces_of(given, decision, asked.seed, notes)
    first = list(itertools.islice(train.rows(), SHOWN))
    return Plan(train.layout, decision, profiles, train.columns, first, pieces, classes, notes)


def by_split(files: Sequence[Path]) -> dict[str, Path]:
    """Which file is which split: one file is train, several say it in their names.

    Raises:
        DataError: A name says none, or two the same, or none says train.
    """
    if len(files) == 1:
        return {"train": files[0]}
    found: dict[str, Path] = {}
    for path in files:
        words = re.split(r"[^a-z]+", path.name.lower())
        splits = [split for split, names in ALIASES.items() if any(re.fullmatch(names, word) for word in words)]
        if len(splits) != 1 or splits[0] in found:
            raise DataError(f"{path}: which split is it?", "Name the files after them: train.csv, validation.csv, test.csv.")
        found[splits[0]] = path
    if "train" not in found:
        raise DataError("None of the files is called train.", "Name the files after their splits: train.csv, validation.csv, test.csv.")
    return {split: found[split] for split in SPLITS if split in found}


def with_layouts(files: Mapping[str, Path], header: bool | None) -> dict[str, tuple[Path, Layout]]:
    """The layout of each file, which must be the same for all: ``data.files`` says it once."""
    layouts = {split: recognise(path) for split, path in files.items()}
    if header is not None:
        layouts = {split: replace(layout, header=header) for split, layout in layouts.items()}
    for split, layout in layouts.items():
        plain = {"utf-8-sig": "utf-8"}.get(layout.encoding, layout.encoding)
        if layout != replace(layouts["train"], encoding=layout.encoding) or plain != layouts["train"].encoding.removesuffix("-sig"):
            raise DataError(f"{files[split]} is not written like {files['train']}.", "Give all of them one format, delimiter and encoding.")
    return {split: (files[split], layouts[split]) for split in files}


def pieces_of(given: Mapping[str, RowFile], decision: Decision, seed: int, notes: list[str]) -> tuple[list[Piece], dict[str, Counter[str]]]:
    """Where every row goes: to the split of its file; what has no file of its own is cut off train."""
    kept = {split: file for split, file in given.items() if split == "train" or _is_labelled(file, decision, notes)}
    shares = {split: share for split, share in SHARES.items() if split not in kept}
    classes: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
    pieces = []
    for split, file in kept.items():
        text, label = _places(file, decision)
        keys = keys_of(file.rows(), text, label, seed, decision.task == "regression")
        parts = assign(keys, shares) if split == "train" else [None if key is None else split for key in keys.texts]
        for key, part in zip(keys.texts, parts, strict=True):
            if key is not None and part is not None:
                classes[part][keys.labels[key]] += 1
        if keys.left_out:
            notes.append(f"{file.path}: {keys.left_out:,} rows without text or label are left out.")
        pieces.append(Piece(file, parts))
    if shares:
        notes.append(f"{' and '.join(shares)} cut off {given['train'].path.name}, 10 % each, drawn label by label; no text stands in two.")
    return pieces, classes


def _is_labelled(file: RowFile, decision: Decision, notes: list[str]) -> bool:
    if decision.label_column in file.columns:
        label = file.columns.index(decision.label_column)
        if not profile(["label"], _column(file, label))[0].is_unlabelled:
            return True
    notes.append(f"{file.path} has no labels, so nothing can be measured on it; it is left out. `tuneline predict {file.path}` labels it.")
    return False


def _column(file: RowFile, place: int) -> Iterator[Row]:
    return ((row[place],) for row in file.rows())


def _places(file: RowFile, decision: Decision) -> tuple[list[int], int]:
    for name in (*decision.text_columns, decision.label_column):
        if name not in file.columns:
            raise DataError(f"{file.path} has no column {name!r}.", f"Columns there: {', '.join(map(repr, file.columns))}")
    return [file.columns.index(name) for name in decision.text_columns], file.columns.index(decision.label_column)


def folder_name(files: Sequence[Path]) -> str:
    """A name for the folder: that of the one file, else that of the folder the files lie in."""
    stem = files[0].name.split(".")[0] if len(files) == 1 else files[0].resolve().parent.name
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-")
    return name or "mine"


def source_folder(name: str) -> Path:
    """``data/source/NAME``.

    Raises:
        DataError: The name would lead elsewhere.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise DataError(f"--name {name!r} is no name of a folder.", "Letters, digits, '_', '-' and '.' make one.")
    return SOURCE / name
