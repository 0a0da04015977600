"""The plan of ``tuneline init``: everything that it will write, known before anything is written."""

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuneline.cli.init.columns import Decision, Profile, Task, decide, profile
from tuneline.cli.init.layout import Layout, detect_layout
from tuneline.cli.init.rows import Row, RowFile, open_rows
from tuneline.cli.init.splitting import assign, keys_of
from tuneline.errors import DataError
from tuneline.paths import SOURCE, SPLITS
from tuneline.readers.rows import check_columns

FRACTIONS = {"validation": 0.1, "test": 0.1}
"""Fractions of the train file for the splits that have no file of their own."""
ALIASES = {"train": "train|training", "validation": "validation|valid|val|dev", "test": "test"}
PREVIEW_ROWS = 5


@dataclass(frozen=True)
class UserChoices:
    """What the user chose on the command line."""

    text: tuple[str, ...] = ()
    label: str | None = None
    task: Task | None = None
    header: bool | None = None
    seed: int = 42


@dataclass(frozen=True)
class SplitFile:
    """A source file, and the split of each of its rows (``None`` for a row that is left out)."""

    file: RowFile
    parts: Sequence[str | None]


@dataclass(frozen=True)
class Plan:
    """Everything that will be written.

    Attributes:
        layout: Layout of every file.
        decision: Text columns, label column and task.
        profiles: Statistics of the columns of the train file.
        columns, first: Columns and first rows of the train file.
        files: The source files with the split of each row.
        classes: Rows per class of each split; one class ``""`` in a regression.
        notes: Messages for the user.
    """

    layout: Layout
    decision: Decision
    profiles: Sequence[Profile]
    columns: Sequence[str]
    first: Sequence[Row]
    files: Sequence[SplitFile]
    classes: Mapping[str, Counter[str]]
    notes: list[str] = field(default_factory=list)

    def target(self, folder: Path, split: str) -> Path:
        """Return the file of a split."""
        return folder / f"{split}{self.layout.suffix}"

    def write(self, folder: Path) -> None:
        """Write the splits into an empty folder."""
        for source in self.files:
            targets = {split: self.target(folder, split) for split in SPLITS if split in set(source.parts)}
            source.file.divide(source.parts, targets)


def plan(paths: Sequence[Path], choices: UserChoices) -> Plan:
    """Read the files and decide what to write.

    Raises:
        DataError: The files cannot be used, or the user has to choose something; the hint names the option.
    """
    sources = {split: open_rows(path, layout) for split, (path, layout) in with_layouts(by_split(paths), choices.header).items()}
    train = sources["train"]
    profiles = profile(train.columns, train.rows())
    if not profiles or profiles[0].rows == 0:
        raise DataError(f"{train.path} has no rows.", "Add rows, or name another file.")
    decision = decide(profiles, choices.text, choices.label, choices.task)
    notes: list[str] = []
    files, classes = assign_rows(sources, decision, choices.seed, notes)
    first = list(itertools.islice(train.rows(), PREVIEW_ROWS))
    return Plan(train.layout, decision, profiles, train.columns, first, files, classes, notes)


def by_split(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the file of each split: a single file is train; several files have the split in their names.

    Raises:
        DataError: A name has no split, two files have the same split, or none is train.
    """
    if len(paths) == 1:
        return {"train": paths[0]}
    found: dict[str, Path] = {}
    for path in paths:
        words = re.split(r"[^a-z]+", path.name.lower())
        splits = [split for split, names in ALIASES.items() if any(re.fullmatch(names, word) for word in words)]
        if len(splits) != 1 or splits[0] in found:
            problem = "belongs to the same split as another file" if len(splits) == 1 else "the split is not clear from the name"
            raise DataError(f"{path}: {problem}.", "Name the files after the splits: train.csv, validation.csv, test.csv.")
        found[splits[0]] = path
    if "train" not in found:
        raise DataError("No file is named train.", "Name the files after the splits: train.csv, validation.csv, test.csv.")
    return {split: found[split] for split in SPLITS if split in found}


def with_layouts(files: Mapping[str, Path], header: bool | None) -> dict[str, tuple[Path, Layout]]:
    """Return each file with its layout.

    Raises:
        DataError: The layouts differ; ``data.files`` describes all files at once.
    """
    layouts = {split: detect_layout(path) for split, path in files.items()}
    if header is not None:
        layouts = {split: replace(layout, header=header) for split, layout in layouts.items()}
    for split, layout in layouts.items():
        plain = {"utf-8-sig": "utf-8"}.get(layout.encoding, layout.encoding)
        if layout != replace(layouts["train"], encoding=layout.encoding) or plain != layouts["train"].encoding.removesuffix("-sig"):
            raise DataError(
                f"{files[split]} has another layout than {files['train']}.", "Write all files in one format, delimiter and encoding."
            )
    return {split: (files[split], layouts[split]) for split in files}


def assign_rows(
    sources: Mapping[str, RowFile], decision: Decision, seed: int, notes: list[str]
) -> tuple[list[SplitFile], dict[str, Counter[str]]]:
    """Assign every row to the split of its file; splits without a file get fractions of train.

    Returns:
        The files with the split of each row, and the rows per class of each split.
    """
    labelled = {split: file for split, file in sources.items() if split == "train" or _is_labelled(file, decision, notes)}
    fractions = {split: fraction for split, fraction in FRACTIONS.items() if split not in labelled}
    classes: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
    files = []
    for split, file in labelled.items():
        text, label = _positions(file, decision)
        keys = keys_of(file.rows(), text, label, seed, decision.task == "regression")
        parts = assign(keys, fractions) if split == "train" else [None if key is None else split for key in keys.texts]
        for key, part in zip(keys.texts, parts, strict=True):
            if key is not None and part is not None:
                classes[part][keys.labels[key]] += 1
        if keys.left_out:
            notes.append(f"{file.path}: {keys.left_out:,} rows without text or label are left out.")
        files.append(SplitFile(file, parts))
    if fractions:
        taken = " and ".join(fractions)
        notes.append(f"{taken} taken from {sources['train'].path.name}, 10 % each, stratified by label; no text is in two splits.")
    return files, classes


def _is_labelled(file: RowFile, decision: Decision, notes: list[str]) -> bool:
    if decision.label_column in file.columns:
        label = file.columns.index(decision.label_column)
        if not profile(["label"], ((row[label],) for row in file.rows()))[0].is_unlabelled:
            return True
    notes.append(f"{file.path} has no labels, so it cannot be evaluated; it is left out. `tuneline predict {file.path}` labels it.")
    return False


def _positions(file: RowFile, decision: Decision) -> tuple[list[int], int]:
    check_columns(file.columns, dict.fromkeys(decision.text_columns, "--text") | {decision.label_column: "--label"}, str(file.path))
    return [file.columns.index(name) for name in decision.text_columns], file.columns.index(decision.label_column)


def folder_name(paths: Sequence[Path]) -> str:
    """Return a name for the folder: that of a single file, else that of the folder of the files."""
    stem = paths[0].name.split(".")[0] if len(paths) == 1 else paths[0].resolve().parent.name
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-")
    return name or "mine"


def source_folder(name: str) -> Path:
    """Return ``data/source/NAME``.

    Raises:
        DataError: The name is not a plain folder name.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise DataError(f"--name {name!r} is not a folder name.", "Use letters, digits, '_', '-' and '.'.")
    return SOURCE / name
