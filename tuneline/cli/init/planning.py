"""The plan of ``tuneline init``: everything that it will write, shown before anything is written."""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuneline.cli.init.class_counts import LeftOut, count_classes
from tuneline.cli.init.columns import ColumnChoice, decide_columns
from tuneline.cli.init.placement import Placement, by_split, files_in, place
from tuneline.cli.init.profiles import Cells, ColumnProfile, profile, sampling
from tuneline.cli.init.row_file import RowFile, open_row_file
from tuneline.cli.init.shared_layout import guessed_encoding_notes, layouts
from tuneline.cli.init.split_fractions import plan_split, usual_split
from tuneline.core.errors import DataError
from tuneline.core.paths import SPLITS
from tuneline.params import Params
from tuneline.params.data import DataParams, SplitParams, TaskKind
from tuneline.readers.layout import Layout
from tuneline.readers.rows import BadRowPolicy, Limits

PREVIEW_ROWS = 5


@dataclass(frozen=True)
class UserChoices:
    """What the user chose on the command line; ``None`` or empty is left to ``tuneline init``."""

    text: tuple[str, ...] = ()
    label: str | None = None
    task: TaskKind | None = None
    header: bool | None = None
    encoding: str | None = None
    by: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class Plan:
    """Everything that will be written.

    Attributes:
        split: ``data.split``: how ``download`` divides the train file; ``None`` if every split has a file.
        profiles: Statistics of the columns of the train file.
        sample: A random sample of its rows.
        columns, first: Its columns and first rows.
        classes: Rows per class of each split; one class ``""`` in a regression.
        max_bad_share: The limit of the fraction of rows left out: the current one, or a higher one if many
            have no text or label.
        notes: Messages for the user.
    """

    layout: Layout
    placement: Placement
    decision: ColumnChoice
    split: SplitParams | None
    profiles: Sequence[ColumnProfile]
    sample: Sequence[Cells]
    columns: Sequence[str]
    first: Sequence[Cells]
    classes: Mapping[str, Counter[str]]
    left_out: LeftOut
    max_bad_share: float
    notes: list[str]


def plan(paths: Sequence[Path], choices: UserChoices, params: Params) -> Plan:
    """Read the files and decide what to write.

    Rows that cannot be read are left out, up to ``data.max_bad_share`` of ``params``.

    Raises:
        DataError: The files cannot be used, or the user has to choose something; the hint names the option.
    """
    current = params.data
    notes: list[str] = []

    # source files
    paths_by_split = by_split(files_in(paths))
    files = open_files(paths_by_split, choices, current)
    train = files["train"]

    # columns
    sample: list[Cells] = []
    profiles = profile(train.columns, sampling(train.rows(), sample))
    if not profiles or profiles[0].rows == 0:
        raise DataError(f"{train.path} has no rows.", "Add rows, or name another file.")
    decision = decide_columns(profiles, sample, choices.text, choices.label, choices.task)
    for split, file in files.items():
        files[split] = file.with_decimal(decision.decimal)
    train = files["train"]
    if choices.encoding is None:
        notes += guessed_encoding_notes(train.layout.encoding, sample)

    # copies of the files that have labels
    labelled = files_with_labels(files, decision, notes)
    to_place = {split: file.path for split, file in labelled.items()}
    placement = place(to_place, list(paths_by_split.values()), train.layout, choices.name)
    notes += batch_notes(placement)

    # splits and their classes
    split_now = usual_split(profiles[0].rows)
    if current.split is not None and current.path == placement.data_path:
        split_now = current.split  # for this data already
    without_file = [split for split in SPLITS if split not in labelled]
    division = plan_split(without_file, train, choices.by, split_now)
    classes, left_out = count_classes(labelled, decision, division, params.seed)
    if not classes["train"]:
        text = " and ".join(map(repr, decision.text_columns))
        problem = f"{train.path}: no row has a text in {text} and a label in {decision.label_column!r}."
        raise DataError(problem, "Name others: --text, --label")

    # in whole percent, so that the same files satisfy the limit
    share_left_out = math.ceil(left_out.share * 100) / 100
    return Plan(
        layout=train.layout,
        placement=placement,
        decision=decision,
        split=division,
        profiles=profiles,
        sample=sample,
        columns=train.columns,
        first=list(itertools.islice(train.rows(), PREVIEW_ROWS)),
        classes=classes,
        left_out=left_out,
        max_bad_share=max(current.max_bad_share, share_left_out),
        notes=notes,
    )


def open_files(paths: Mapping[str, Path], choices: UserChoices, current: DataParams) -> dict[str, RowFile]:
    """Open the file of each split, within the limits of the current parameters."""
    limits = Limits.of(
        current.files.max_cell_characters, current.files.max_row_group_mb, current.files.max_unpacked_mb
    )
    policy = BadRowPolicy("skip", current.max_bad_share)
    files = {}
    for split, layout in layouts(paths, choices.header, choices.encoding, limits).items():
        files[split] = open_row_file(paths[split], layout, limits, policy)
    return files


def files_with_labels(
    files: Mapping[str, RowFile], decision: ColumnChoice, notes: list[str]
) -> dict[str, RowFile]:
    """Return the train file and the files that have labels; add a note for each file without labels."""
    labelled = {}
    for split, file in files.items():
        if split == "train" or is_labelled(file, decision):
            labelled[split] = file
        else:
            notes.append(
                f"{file.path} has no labels, so it cannot be evaluated; it is left out. `tuneline predict"
                f" {file.path}` labels it."
            )
    return labelled


def is_labelled(file: RowFile, decision: ColumnChoice) -> bool:
    """Return True if a file has the label column, and a label in any row."""
    if decision.label_column not in file.columns:
        return False
    position = file.columns.index(decision.label_column)
    labels = ((row[position],) for row in file.rows())
    return not profile(["label"], labels)[0].is_unlabelled


def batch_notes(placement: Placement) -> list[str]:
    """Return a note for each folder of batches, which the stage ``download`` reads after the file."""
    notes = []
    for spec in placement.specs.values():
        folder = placement.folder / spec
        if folder.is_dir() and any(folder.glob("[!.]*")):
            notes.append(
                f"! {folder}/ has batches (docs/your-data.md): they are read too, but the figures here are"
                " those of the file alone."
            )
    return notes
