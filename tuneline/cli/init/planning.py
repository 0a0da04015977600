"""The plan of ``tuneline init``: everything that it will write, known before anything is written."""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuneline.cli.init.columns import Decision, Task, decide
from tuneline.cli.init.counting import LeftOut, count_classes
from tuneline.cli.init.encodings import WESTERN
from tuneline.cli.init.layout import Layout, detect_layout
from tuneline.cli.init.placement import Placement, by_split, files_in, place
from tuneline.cli.init.profiles import Profile, profile
from tuneline.cli.init.rows import Row, RowFile, Sample, open_rows
from tuneline.errors import DataError
from tuneline.params.data import SplitParams
from tuneline.paths import SPLITS
from tuneline.readers.bad_rows import MAX_SHARE, BadRowPolicy
from tuneline.readers.limits import DEFAULT_LIMITS, Limits
from tuneline.readers.rows import check_columns

PREVIEW_ROWS = 5


@dataclass(frozen=True)
class UserChoices:
    """What the user chose on the command line, and the current ``seed``, ``data.split`` and limits of ``params.yaml``.

    Rows that cannot be read are left out, up to ``data.max_bad_share``.
    """

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
    max_bad_share: float = MAX_SHARE


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
        left_out: The rows that will be left out.
        max_bad_share: The limit of their fraction: the current one, or a higher one if many rows have no text or label.
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
    left_out: LeftOut
    max_bad_share: float
    notes: list[str]


def plan(paths: Sequence[Path], choices: UserChoices) -> Plan:
    """Read the files and decide what to write.

    Raises:
        DataError: The files cannot be used, or the user has to choose something; the hint names the option.
    """
    files = by_split(files_in(paths))
    policy = BadRowPolicy("skip", choices.max_bad_share)
    layouts = with_layouts(files, choices)
    sources = {split: open_rows(path, layout, choices.limits, policy) for split, (path, layout) in layouts.items()}
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
    classes, left_out = count_classes(labelled, decision, split, choices.seed)
    if not classes["train"]:
        text = " and ".join(map(repr, decision.text_columns))
        raise DataError(
            f"{train.path}: no row has a text in {text} and a label in {decision.label_column!r}.", "Name others: --text, --label"
        )
    first = list(itertools.islice(train.rows(), PREVIEW_ROWS))
    most = max(choices.max_bad_share, math.ceil(left_out.share * 100) / 100)
    return Plan(train.layout, placement, decision, split, profiles, sample.rows, train.columns, first, classes, left_out, most, notes)


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
