"""The plan of ``tuneline init``: everything that it will write, shown before anything is written."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from tuneline.cli.init.class_counts import LeftOut, SplitCounts, count_classes
from tuneline.cli.init.group_columns import GroupColumn, find_groups
from tuneline.cli.init.placement import Placement, by_split, files_in, place
from tuneline.cli.init.repeated_texts import people_note, repeated_texts, with_rows
from tuneline.cli.init.row_file import RowFile
from tuneline.cli.init.shared_layout import guessed_encoding_notes, settled_headers
from tuneline.cli.init.split_fractions import DecidingColumn, plan_split, usual_split
from tuneline.cli.init.time_columns import TimeColumn, find_times
from tuneline.columns.annotators import names_person
from tuneline.columns.choice import ColumnChoice, decide_columns
from tuneline.columns.doubts import ColumnDoubt, NamedColumns
from tuneline.columns.profiles import Cells, ColumnProfile, profile
from tuneline.params import Params
from tuneline.params.data import DataParams, SplitParams
from tuneline.paths import SPLITS
from tuneline.readers.rows import BadRowPolicy, Limits
from tuneline.readers.tables import Layout
from tuneline.runtime.errors import DataError
from tuneline.sniffing.files import Sniffed, Told, sniff
from tuneline.tasks import TASKS


class OpenQuestionError(DataError):
    """The columns can be read in several ways: a person has to choose.

    Attributes:
        doubt: The question.
    """

    status = 3
    """No guess was made, and nothing was written."""

    def __init__(self, command: str, doubt: ColumnDoubt) -> None:
        lines = []
        for answer in doubt.alternatives:
            lines.append(f"{command} {answer.options}\n      {answer.trains}")
        super().__init__(f"{doubt.problem}. Choose:", "\n  ".join(lines))
        self.doubt = doubt


@dataclass(frozen=True, kw_only=True)
class UserChoices(NamedColumns):
    """What the user chose on the command line; ``None`` or empty is left to ``tuneline init``.

    Attributes:
        command: The command with its files, to which an answer is added.
    """

    command: str = "tuneline init"
    header: bool | None = None
    encoding: str | None = None
    by: str | None = None
    by_time: str | None = None
    no_by: bool = False
    name: str | None = None

    def answered(self, choice: NamedColumns) -> Self:
        """Return the choices with the answer to a doubt."""
        return replace(
            self,
            text=choice.text,
            label=choice.label,
            task=choice.task,
            separator=choice.separator,
            decimal=choice.decimal,
        )


@dataclass(frozen=True)
class Plan:
    """Everything that will be written.

    Attributes:
        split: ``data.split``: how ``download`` divides the train file; ``None`` if every split has a file.
        profiles: Statistics of the columns of the train file.
        sample: A random sample of its rows.
        columns, first: Its columns and first rows.
        counts: Rows of each split, and of its classes.
        groups: Columns whose values have a few rows each.
        times: Columns of dates and times.
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
    counts: Mapping[str, SplitCounts]
    left_out: LeftOut
    groups: Sequence[GroupColumn]
    times: Sequence[TimeColumn]
    max_bad_share: float
    notes: list[str]


def plan(files: Mapping[str, RowFile], choices: UserChoices, params: Params) -> Plan:
    """Decide what to write about the file of each split.

    Rows that cannot be read are left out, up to ``data.max_bad_share`` of ``params``.

    Raises:
        DataError: The files cannot be used, or the user has to choose something; the hint names the option.
        OpenQuestionError: The columns can be read in several ways.
    """
    current = params.data
    notes: list[str] = []

    # columns
    train = files["train"]
    originals = [Path(file.path) for file in files.values()]
    profiles = train.seen.profiles
    sample = train.seen.sample
    if not profiles or profiles[0].rows == 0:
        raise DataError(f"{train.path} has no rows.", "Add rows, or name another file.")
    decision = decide(train, choices, notes)
    files = {split: file.with_numbers(decision.reading.numbers) for split, file in files.items()}
    train = files["train"]
    if choices.encoding is None:
        notes += guessed_encoding_notes(train.layout.encoding, sample)

    # copies of the files that have labels
    labelled = files_with_labels(files, decision, notes)
    to_place = {split: Path(file.path) for split, file in labelled.items()}
    placement = place(to_place, originals, train.layout, choices.name)
    notes += batch_notes(placement)

    # splits and their classes
    split_now = usual_split(profiles[0].rows)
    if current.split is not None and current.path == placement.data_path:
        split_now = current.split  # for this data already
    without_file = [split for split in SPLITS if split not in labelled]
    times = find_times(profiles, sample, decision)
    no_groups = [column.name for column in times] + people_columns(train.columns, decision)
    groups = find_groups(train, profiles, decision, no_groups)
    chosen = choose_column(choices, groups, split_now, is_new=split_now is not current.split)
    division = plan_split(without_file, train, chosen, split_now)
    counts, left_out = count_classes(labelled, decision, division, params.seed)
    if not counts["train"].classes:
        text = " and ".join(map(repr, decision.text_columns))
        label = " or ".join(map(repr, decision.label_columns))
        problem = f"{train.path}: no row has a text in {text} and a label in {label}."
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
        first=train.seen.first,
        counts=counts,
        left_out=left_out,
        groups=groups,
        times=times,
        max_bad_share=max(current.max_bad_share, share_left_out),
        notes=notes,
    )


def choose_column(
    choices: UserChoices, groups: Sequence[GroupColumn], now: SplitParams, *, is_new: bool
) -> DecidingColumn:
    """Return the column that decides on the split of a row.

    It is the one that the user named, else the one of ``now``, else the coarsest one with alike texts. The
    last is a guess, and the other guess would make the figures too good without a sign of it: ``--no-by``.

    Args:
        choices: What the user said.
        groups: Columns whose values have a few rows each, the best first.
        now: How the file is divided in ``params.yaml``, or usually.
        is_new: True if ``params.yaml`` is for other data.
    """
    if choices.by is not None or choices.by_time is not None:
        return DecidingColumn(choices.by, choices.by_time)
    if choices.no_by:
        return DecidingColumn(None, None)
    if is_new and groups and groups[0].is_alike:
        return DecidingColumn(groups[0].name, None, is_guess=True)
    return DecidingColumn(now.by, now.by_time, is_guess=True)


def decide(train: RowFile, choices: UserChoices, notes: list[str]) -> ColumnChoice:
    """Decide on the columns of the train file, and on whether it has a row for each label of a text.

    A note is added if its texts are in several rows that contradict each other.

    Raises:
        DataError: The user asked for several labels, and each text has one.
        OpenQuestionError: The columns can be read in several ways.
    """
    decision = decide_columns(train.seen.profiles, train.seen.sample, choices)
    people = people_columns(train.columns, decision)
    has_classes = TASKS[decision.task].has_classes
    if decision.doubt is None and (has_classes or people):
        repeated = repeated_texts(train, decision)
        if has_classes and decision.sets is None and not choices.one_label:
            decision = with_rows(train, repeated, decision, choices, people)
        notes += people_note(repeated, people, decision)
    if decision.doubt is not None:
        raise OpenQuestionError(choices.command, decision.doubt)
    return decision


def people_columns(columns: Sequence[str], decision: ColumnChoice) -> list[str]:
    """Return the columns that say who labelled a row."""
    read = (*decision.text_columns, *decision.label_columns)
    return [name for name in columns if names_person(name) and name not in read]


def sniff_files(paths: Sequence[Path], encoding: str | None, current: DataParams) -> dict[str, Sniffed]:
    """Detect how the file of each split is written, within the limits of the current parameters."""
    limits = Limits.of(
        current.files.max_cell_characters, current.files.max_row_group_mb, current.files.max_unpacked_mb
    )
    told = Told(encoding=encoding)
    return {split: sniff(path, told, limits=limits) for split, path in by_split(files_in(paths)).items()}


def read_files(
    sniffed: Mapping[str, Sniffed], header: bool | None, current: DataParams
) -> dict[str, RowFile]:
    """Read the file of each split."""
    policy = BadRowPolicy("skip", current.max_bad_share)
    return {split: RowFile(file, policy) for split, file in settled_headers(sniffed, header).items()}


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
    """Return True if a file has the label columns, and a label in any row."""
    columns = decision.label_columns
    if not set(columns) <= set(file.columns):
        return False
    return not all(column.is_unlabelled for column in profile(columns, file.rows(columns)))


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
