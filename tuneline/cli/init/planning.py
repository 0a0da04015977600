"""The plan of ``tuneline init``: everything that it will write, known before anything is written."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from tuneline.cli.init.columns import Decision, Task, decide
from tuneline.cli.init.encodings import WESTERN
from tuneline.cli.init.layout import Layout, detect_layout
from tuneline.cli.init.placement import Placement, by_split, files_in, place
from tuneline.cli.init.profiles import Profile, profile
from tuneline.cli.init.rows import Row, RowFile, Sample, open_rows
from tuneline.errors import DataError
from tuneline.params.data import SplitParams
from tuneline.paths import SPLITS
from tuneline.readers.limits import DEFAULT_LIMITS, Limits
from tuneline.readers.rows import check_columns
from tuneline.splitting import assign_splits, hashes, row_hashes

PREVIEW_ROWS = 5
BATCH = 10_000
"""Rows that are hashed at a time."""


@dataclass(frozen=True)
class UserChoices:
    """What the user chose on the command line, and the current ``seed``, ``data.split`` and limits of ``params.yaml``."""

    text: tuple[str, ...] = ()
    label: str | None = None
    task: Task | None = None
    header: bool | None = None
    encoding: str | None = None
    by: str | None = None
    name: str | None = None
    seed: int = 42
    split: SplitParams = field(default_factory=SplitParams)
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True)
class Plan:
    """Everything that will be written.

    Attributes:
        layout: Layout of every file.
        placement: The files under ``data/source/``.
        decision: Text columns, label column and task.
        split: ``data.split``: how ``download`` divides the train file; ``None`` if every split has a file.
        profiles: Statistics of the columns of the train file.
        sample: A random sample of its rows.
        columns, first: Columns and first rows of the train file.
        classes: Rows per class of each split; one class ``""`` in a regression.
        incomplete: Number of rows without text or label.
        notes: Messages for the user.
    """

    layout: Layout
    placement: Placement
    decision: Decision
    split: SplitParams | None
    profiles: Sequence[Profile]
    sample: Sequence[Row]
    columns: Sequence[str]
    first: Sequence[Row]
    classes: Mapping[str, Counter[str]]
    incomplete: int
    notes: list[str]


def plan(paths: Sequence[Path], choices: UserChoices) -> Plan:
    """Read the files and decide what to write.

    Raises:
        DataError: The files cannot be used, or the user has to choose something; the hint names the option.
    """
    files = by_split(files_in(paths))
    sources = {split: open_rows(path, layout, choices.limits) for split, (path, layout) in with_layouts(files, choices).items()}
    train = sources["train"]
    sample = Sample()
    profiles = profile(train.columns, sample.watch(train.rows()))
    if not profiles or profiles[0].rows == 0:
        raise DataError(f"{train.path} has no rows.", "Add rows, or name another file.")
    decision = decide(profiles, sample.rows, choices.text, choices.label, choices.task)
    notes = encoding_notes(train.layout.encoding, sample.rows) if choices.encoding is None else []
    labelled = {split: file for split, file in sources.items() if split == "train" or _is_labelled(file, decision, notes)}
    placement = place({split: file.path for split, file in labelled.items()}, list(files.values()), train.layout, choices.name)
    notes += batch_notes([placement.folder / placement.specs[split] for split in labelled])
    split = plan_split([name for name in SPLITS if name not in labelled], train, choices)
    classes, incomplete = count_classes(labelled, decision, split, choices.seed)
    if not classes["train"]:
        text = " and ".join(map(repr, decision.text_columns))
        raise DataError(
            f"{train.path}: no row has a text in {text} and a label in {decision.label_column!r}.", "Name others: --text, --label"
        )
    first = list(itertools.islice(train.rows(), PREVIEW_ROWS))
    return Plan(train.layout, placement, decision, split, profiles, sample.rows, train.columns, first, classes, incomplete, notes)


def with_layouts(files: Mapping[str, Path], choices: UserChoices) -> dict[str, tuple[Path, Layout]]:
    """Return each file with its layout.

    Raises:
        DataError: The layouts differ; ``data.files`` describes all files at once.
    """
    layouts = {split: detect_layout(path, choices.encoding, choices.limits) for split, path in files.items()}
    if choices.header is not None:
        layouts = {split: replace(layout, header=choices.header) for split, layout in layouts.items()}
    for split, layout in layouts.items():
        plain = {"utf-8-sig": "utf-8"}.get(layout.encoding, layout.encoding)
        if layout != replace(layouts["train"], encoding=layout.encoding) or plain != layouts["train"].encoding.removesuffix("-sig"):
            raise DataError(
                f"{files[split]} has another layout than {files['train']}.", "Write all files in one format, delimiter and encoding."
            )
    return {split: (files[split], layouts[split]) for split in files}


def encoding_notes(encoding: str, sample: Sequence[Row]) -> list[str]:
    """Return a warning with an example if the encoding is a guess."""
    if encoding != WESTERN:
        return []
    example = next((cell for row in sample for cell in row if cell and not cell.isascii()), "")
    position = next((index for index, character in enumerate(example) if not character.isascii()), 0)
    shown = example[max(0, position - 20) : position + 20]
    return [f"! The file is not UTF-8 and is read as {WESTERN}: {shown!r}. If that looks wrong, name its encoding: --encoding NAME"]


def batch_notes(folders: Sequence[Path]) -> list[str]:
    """Return a note for each folder of batches: the stage ``download`` reads them after the file of the same name."""
    found = [folder for folder in folders if folder.is_dir() and any(folder.glob("[!.]*"))]
    return [
        f"! {folder}/ has batches (docs/your-data.md): they are read too, but the figures here are those of the file alone."
        for folder in found
    ]


def _is_labelled(file: RowFile, decision: Decision, notes: list[str]) -> bool:
    if decision.label_column in file.columns:
        label = file.columns.index(decision.label_column)
        if not profile(["label"], ((row[label],) for row in file.rows()))[0].is_unlabelled:
            return True
    notes.append(f"{file.path} has no labels, so it cannot be evaluated; it is left out. `tuneline predict {file.path}` labels it.")
    return False


def plan_split(without_file: Sequence[str], train: RowFile, choices: UserChoices) -> SplitParams | None:
    """Return how the train file is divided: the current fractions and mode of ``data.split`` are kept.

    Args:
        without_file: The splits without a file of their own.
        train: The train file.
        choices: The user's choices.

    Raises:
        DataError: ``--by`` is not a column, or nothing is divided.
    """
    if choices.by is not None:
        check_columns(train.columns, {choices.by: "--by"}, str(train.path))
    if not without_file:
        if choices.by is not None:
            raise DataError("--by divides a file, but every split has a file of its own.", "Leave out --by, or name fewer files.")
        return None
    usual, now = SplitParams(), choices.split
    fractions = {name: (getattr(now, name) or getattr(usual, name)) if name in without_file else 0.0 for name in ("validation", "test")}
    by = choices.by or (now.by if now.by in train.columns else None)
    return SplitParams(**fractions, by=by, stratify=now.stratify)


def count_classes(
    files: Mapping[str, RowFile], decision: Decision, split: SplitParams | None, seed: int
) -> tuple[dict[str, Counter[str]], int]:
    """Return the complete rows per class of each split, as the stage ``download`` will divide them, and the number of the others."""
    classes: dict[str, Counter[str]] = {name: Counter() for name in SPLITS}
    incomplete = 0
    for name, file in files.items():
        rows, strata, labels = [], [], []
        for texts, group, label in _batches(file, decision, split.by if split and name == "train" else None):
            labels += _labels(texts, label, decision.task == "regression")
            rows.append(row_hashes(texts, group, seed))
            strata.append(hashes(label) if decision.task == "classification" else np.zeros(len(label), np.uint64))
        parts = np.full(len(labels), SPLITS.index(name))
        if split is not None and name == "train":
            parts = assign_splits(np.concatenate(rows), np.concatenate(strata), split)
        for value, part in zip(labels, parts.tolist(), strict=True):
            if value is not None:
                classes[SPLITS[part]][value] += 1
        incomplete += labels.count(None)
    return classes, incomplete


def _batches(
    file: RowFile, decision: Decision, by: str | None
) -> Iterator[tuple[list[pa.StringArray], pa.StringArray | None, pa.StringArray]]:
    """Yield the text columns, the groups if any, and the labels, without white space around groups and labels."""
    check_columns(file.columns, dict.fromkeys(decision.text_columns, "--text") | {decision.label_column: "--label"}, str(file.path))
    texts = [file.columns.index(name) for name in decision.text_columns]
    label, group = file.columns.index(decision.label_column), file.columns.index(by) if by else None
    source = file.rows()
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
