"""The plan of ``tuneline init``: everything that it will write, known and shown before anything is written."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table
from rich.text import Text
from ruamel.yaml import YAML

from tuneline.analysis.corrections import dropped_file, label_file
from tuneline.analysis.splitting import assign_splits, hashes, row_hashes
from tuneline.cli.console import Console
from tuneline.cli.init.columns import (
    NESTED,
    Cells,
    ColumnChoice,
    ColumnProfile,
    decide_columns,
    profile,
    sampling,
)
from tuneline.cli.init.placement import Placement, by_split, files_in, place
from tuneline.core.errors import DataError
from tuneline.core.paths import SPLITS
from tuneline.core.terminal import say, visible
from tuneline.metrics.table import metrics_for, primary_metric
from tuneline.params import Params
from tuneline.params.data import SplitParams, TaskKind
from tuneline.project import git_hook
from tuneline.project.programs import run_dvc
from tuneline.project.repo import file_of_dvc, missing, named
from tuneline.readers.delimited import numbered_column
from tuneline.readers.inputs import Input, open_table, readable
from tuneline.readers.labelled import LABEL, LabelledColumns, has_text, labelled_rows, plain_text
from tuneline.readers.layout import SOURCES, WESTERN_ENCODING, Layout, detect_layout
from tuneline.readers.rows import DEFAULT_LIMITS, STOP, BadRowPolicy, BadRows, Limits, check_columns, listed
from tuneline.readers.text import open_text
from tuneline.tasks import TASKS


@dataclass(frozen=True)
class RowFile:
    """A source file.

    Attributes:
        columns: Column names: those of the header, ``column_1`` and so on without one; the keys of all JSON
            objects, in the order of their first occurrence; the names in a Parquet schema.
        limits: Largest sizes that are read.
        policy: What to do about rows that cannot be read.
    """

    path: Path
    layout: Layout
    columns: list[str]
    limits: Limits = DEFAULT_LIMITS
    policy: BadRowPolicy = STOP

    @property
    def source(self) -> Input:
        """The file as the stage ``download`` reads it."""
        layout = self.layout
        dialect = layout.dialect if layout.header else replace(layout.dialect, columns=tuple(self.columns))
        kind = "csv" if layout.kind == "delimited" else layout.kind
        return Input(self.path, kind, dialect, layout.encoding, self.limits, options=SOURCES, strict=True)

    def with_decimal(self, decimal: str) -> Self:
        """Return the file with another character before the decimals of numbers."""
        dialect = replace(self.layout.dialect, decimal=decimal)
        return replace(self, layout=replace(self.layout, dialect=dialect))

    def bad_rows(self) -> BadRows:
        """Return a counter of the rows that cannot be read."""
        return BadRows(str(self.path), "line", self.policy)

    def rows(self) -> Iterator[Cells]:
        """Read the file to its end, by the rules of the stage ``download``; refuse too many rows that cannot be read."""
        bad, number = self.bad_rows(), 0
        with open_table(self.source) as table:
            flat = {name: name for name in self.columns if not table.is_nested(name)}
            places = [list(flat).index(name) if name in flat else None for name in self.columns]
            for _, values in readable(table.rows(flat, everywhere=()), bad):
                number += 1
                yield tuple([NESTED if place is None else _cell(values[place]) for place in places])
        bad.check(number)


def _cell(value: object) -> str | None:
    """Return a value as the text of a cell."""
    if value is None or isinstance(value, str):
        return value
    return NESTED if isinstance(value, (list, dict)) else plain_text(value)


def open_row_file(
    path: Path, layout: Layout, limits: Limits = DEFAULT_LIMITS, policy: BadRowPolicy = STOP
) -> RowFile:
    """Open a source file."""
    file = RowFile(path, layout, [], limits, policy)
    if not layout.header:
        with open_text(path, layout.encoding, SOURCES, limits) as lines:
            width = len(next(cells for cells in layout.reader(iter(lines)) if cells))
        return replace(file, columns=[numbered_column(position) for position in range(width)])
    with open_table(file.source) as table:
        columns = table.all_names(file.bad_rows())
    check_columns(columns, dict.fromkeys(columns, ""), str(path))
    return replace(file, columns=columns)


@dataclass
class LeftOut:
    """The rows that the stage ``download`` will leave out.

    Attributes:
        incomplete: Number of rows without text or label.
        unreadable, first: Number of rows that cannot be read, and place and reason of the first ones.
        share: Largest fraction of the rows of a file.
    """

    incomplete: int = 0
    unreadable: int = 0
    first: list[str] = field(default_factory=list)
    share: float = 0.0


def count_classes(
    files: Mapping[str, RowFile], decision: ColumnChoice, split: SplitParams | None, seed: int
) -> tuple[dict[str, Counter[str]], LeftOut]:
    """Return the complete rows per class of each split, as the stage ``download`` will divide them, and the others."""
    classes: dict[str, Counter[str]] = {name: Counter() for name in SPLITS}
    left_out, kind = LeftOut(), TASKS[decision.task]
    for name, file in files.items():
        by = split.by if split and name == "train" else None
        rows, strata, labels, bad = [], [], list[str | None](), file.bad_rows()
        for batch in _labelled(file, decision, by, bad):
            texts, label = batch.columns[: len(decision.text_columns)], batch[LABEL]
            complete = pc.and_(has_text(texts), pc.is_valid(label))
            stratum = kind.strata(label)
            labels += pc.if_else(
                complete, pc.fill_null(stratum, ""), pa.scalar(None, pa.string())
            ).to_pylist()
            rows.append(row_hashes(texts, None if by is None else batch["other_0"], seed))
            strata.append(hashes(stratum))
        bad.check(len(labels))
        parts = np.full(len(labels), SPLITS.index(name))
        if split is not None and name == "train" and rows:
            parts = assign_splits(np.concatenate(rows), np.concatenate(strata), split)
        for value, part in zip(labels, parts.tolist(), strict=True):
            if value is not None:
                classes[SPLITS[part]][value] += 1
        incomplete = labels.count(None)
        left_out.incomplete += incomplete
        left_out.unreadable += bad.count
        left_out.first += [f"{bad.name}, {place}" for place in bad.first]
        left_out.share = max(left_out.share, (bad.count + incomplete) / max(len(labels) + bad.count, 1))
    return classes, left_out


def _labelled(
    file: RowFile, decision: ColumnChoice, by: str | None, bad: BadRows
) -> Iterator[pa.RecordBatch]:
    check_columns(
        file.columns,
        dict.fromkeys(decision.text_columns, "--text") | {decision.label_column: "--label"},
        str(file.path),
    )
    others = {} if by is None else {by: "--by"}
    kind = TASKS[decision.task]
    columns = LabelledColumns(
        decision.text_columns, decision.label_column, kind, others, sparse=True, policy=file.policy
    )
    with open_table(file.source) as table:
        yield from labelled_rows(table, columns, bad)


PREVIEW_ROWS = 5
PREVIEW_CHARACTERS = 60


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
    files, current = by_split(files_in(paths)), params.data
    limits = Limits.of(
        current.files.max_cell_characters, current.files.max_row_group_mb, current.files.max_unpacked_mb
    )
    policy = BadRowPolicy("skip", current.max_bad_share)
    sources = {
        split: open_row_file(files[split], layout, limits, policy)
        for split, layout in layouts(files, choices, limits).items()
    }
    train = sources["train"]
    sample: list[Cells] = []
    profiles = profile(train.columns, sampling(train.rows(), sample))
    if not profiles or profiles[0].rows == 0:
        raise DataError(f"{train.path} has no rows.", "Add rows, or name another file.")
    decision = decide_columns(profiles, sample, choices.text, choices.label, choices.task)
    sources = {name: file.with_decimal(decision.decimal) for name, file in sources.items()}
    train = sources["train"]
    notes = guessed_encoding_notes(train.layout.encoding, sample) if choices.encoding is None else []
    labelled = {
        split: file
        for split, file in sources.items()
        if split == "train" or _is_labelled(file, decision, notes)
    }
    placement = place(
        {split: file.path for split, file in labelled.items()},
        list(files.values()),
        train.layout,
        choices.name,
    )
    notes += batch_notes([placement.folder / placement.specs[split] for split in labelled])
    divided = current.split if current.path == placement.data_path else None
    without_file = [name for name in SPLITS if name not in labelled]
    split = plan_split(without_file, train, choices.by, divided or usual_split(profiles[0].rows))
    classes, left_out = count_classes(labelled, decision, split, params.seed)
    if not classes["train"]:
        text = " and ".join(map(repr, decision.text_columns))
        problem = f"{train.path}: no row has a text in {text} and a label in {decision.label_column!r}."
        raise DataError(problem, "Name others: --text, --label")
    first = list(itertools.islice(train.rows(), PREVIEW_ROWS))
    most = max(current.max_bad_share, math.ceil(left_out.share * 100) / 100)
    return Plan(
        train.layout,
        placement,
        decision,
        split,
        profiles,
        sample,
        train.columns,
        first,
        classes,
        left_out,
        most,
        notes,
    )


class UnclearHeaderError(DataError):
    """The first line of a table can be a header or a row, and the user did not say which."""


def layouts(files: Mapping[str, Path], choices: UserChoices, limits: Limits) -> dict[str, Layout]:
    """Return the layout of each file; refuse different ones, because ``data.files`` describes all files at once.

    Raises:
        UnclearHeaderError: No file shows whether they have a header.
    """
    found = {split: detect_layout(path, choices.encoding, limits) for split, path in files.items()}
    header = choices.header
    if header is None:
        clear = [layout.header for layout in found.values() if layout.is_clear]
        if not clear:
            raise unclear_header(files["train"], found["train"])
        header = clear[0]
    known = {
        split: layout if layout.is_clear else replace(layout, header=header, is_clear=True)
        for split, layout in found.items()
    }
    if choices.header is not None:
        known = {
            split: replace(layout, header=choices.header, is_clear=True) for split, layout in found.items()
        }
    plain = {
        split: replace(layout, encoding=layout.encoding.removesuffix("-sig"))
        for split, layout in known.items()
    }
    for split, layout in plain.items():
        if layout != plain["train"]:
            problem = f"{files[split]} has another layout than {files['train']}."
            raise DataError(problem, "Write all files in one format, delimiter and encoding.")
    return known


def unclear_header(path: Path, layout: Layout) -> UnclearHeaderError:
    """Return the error about a first line that can be read in two ways, with the option for each."""
    with open_text(path, layout.encoding, SOURCES) as lines:
        first = next(cells for cells in layout.reader(iter(lines)) if cells)
    shown = listed([cell[:PREVIEW_CHARACTERS] for cell in first], PREVIEW_ROWS)
    numbered = listed([numbered_column(position) for position in range(len(first))], PREVIEW_ROWS)
    problem = (
        f"{path}: the first line of the table, {shown}, can name the columns or be a row like the others."
    )
    hint = (
        f"If it names the columns, add --header. If it is a row, add --no-header: the columns are {numbered}"
        " then."
    )
    return UnclearHeaderError(problem, hint)


def guessed_encoding_notes(encoding: str, sample: Sequence[Cells]) -> list[str]:
    """Return a warning with an example if the encoding is a guess."""
    if encoding != WESTERN_ENCODING:
        return []
    example = next((cell for row in sample for cell in row if cell and not cell.isascii()), "")
    position = next((index for index, character in enumerate(example) if not character.isascii()), 0)
    shown = example[max(0, position - 20) : position + 20]
    return [
        f"! The file is not UTF-8 and is read as {WESTERN_ENCODING}: {shown!r}. If that looks wrong, name its"
        " encoding: --encoding NAME"
    ]


def batch_notes(folders: Sequence[Path]) -> list[str]:
    """Return a note for each folder of batches: the stage ``download`` reads them after the file of the same name."""
    read_too = (
        "has batches (docs/your-data.md): they are read too, but the figures here are those of the file"
        " alone."
    )
    return [f"! {folder}/ {read_too}" for folder in folders if folder.is_dir() and any(folder.glob("[!.]*"))]


def _is_labelled(file: RowFile, decision: ColumnChoice, notes: list[str]) -> bool:
    if decision.label_column in file.columns:
        label = file.columns.index(decision.label_column)
        if not profile(["label"], ((row[label],) for row in file.rows()))[0].is_unlabelled:
            return True
    notes.append(
        f"{file.path} has no labels, so it cannot be evaluated; it is left out. `tuneline predict"
        f" {file.path}` labels it."
    )
    return False


TEST_ROWS, VALIDATION_ROWS = 300, 150
"""Rows of the two splits below which they get a larger part of a small file, within ``MOST_TAKEN``."""
MOST_TAKEN = {"test": 0.3, "validation": 0.15}


def usual_split(rows: int) -> SplitParams:
    """Return how a file of so many rows is divided: a tenth each, and more of a small file, or its test could tell nothing apart."""
    wanted = {"test": TEST_ROWS / rows, "validation": VALIDATION_ROWS / rows}
    usual = SplitParams()
    fractions = {}
    for name, share in wanted.items():
        within = min(math.ceil(share * 100) / 100, MOST_TAKEN[name])
        fractions[name] = max(within, getattr(usual, name))
    return SplitParams(**fractions)


def plan_split(
    without_file: Sequence[str], train: RowFile, by: str | None, now: SplitParams
) -> SplitParams | None:
    """Return how the train file is divided, if there are splits without a file, by the fractions and the mode of ``now``.

    Raises:
        DataError: ``--by`` is not a column, or nothing is divided.
    """
    if by is not None:
        check_columns(train.columns, {by: "--by"}, str(train.path))
        if not without_file:
            raise DataError(
                "--by divides a file, but every split has a file of its own.",
                "Leave out --by, or name fewer files.",
            )
    if not without_file:
        return None
    usual = SplitParams()
    fractions = {
        name: (getattr(now, name) or getattr(usual, name)) if name in without_file else 0.0
        for name in ("validation", "test")
    }
    return SplitParams(
        **fractions, by=by or (now.by if now.by in train.columns else None), stratify=now.stratify
    )


WIDTH = 60


def show_plan(plan: Plan, params: Params) -> None:
    """Print first rows, decisions, splits and warnings."""
    console = Console()
    console.print(first_rows(plan))
    for reason in plan.decision.reasons:
        console.print(Text(f"  {reason}"), soft_wrap=True)
    console.print(Text(f"  format: {plan.layout.described()}\n"), soft_wrap=True)
    console.print(splits_table(plan))
    for note in [*plan.notes, *split_notes(plan), *warnings_of_plan(plan, params)]:
        console.print(Text(f"  {note}"), soft_wrap=True)


def show_changes(changes: Mapping[str, tuple[Any, Any]]) -> None:
    """Print the parameters that will change."""
    console = Console()
    console.print(Text("\nparams.yaml" + ("" if changes else ": nothing to change")))
    for key, values in changes.items():
        old, new = ("null" if value is None else value for value in values)
        console.print(Text(f"  {key}: {old} -> {new}"), soft_wrap=True)


def show_versioned(plan: Plan, content: str) -> bool:
    """Print which files and folders ``dvc add`` will be run for, given the new ``params.yaml``; return False if there are none."""
    paths = _to_add(plan, content)
    if paths:
        text = (
            f"\nDVC keeps {', '.join(map(str, paths))} (dvc add), so that experiments and other machines"
            " have it."
        )
        Console().print(Text(text), soft_wrap=True)
    return bool(paths)


def version(plan: Plan, content: str) -> None:
    """Run ``dvc add`` for the data and the weights that the new ``params.yaml`` names; if that fails, say how to do it."""
    paths = _to_add(plan, content)
    with Console().status("dvc add ..."):
        reason = run_dvc(Path(), "add", "--quiet", *map(str, paths)) if paths else None
    if reason:
        command = f"dvc add {' '.join(map(str, paths))}"
        say(
            f"! dvc add failed, so experiments and other machines lack the data: {reason}\n  {command}",
            error=True,
        )


def _to_add(plan: Plan, content: str) -> list[Path]:
    """Return what of the named files and folders git and DVC lack, or do not exist yet, and what DVC tracks that a copy changes."""
    values = YAML(typ="safe", pure=True).load(content)
    tracked = [owner for target in plan.placement.copies if (owner := file_of_dvc(Path(), target))]
    paths = dict.fromkeys(
        [*missing(Path(), values), *(path for path in named(values) if not path.exists()), *tracked]
    )
    return list(paths) if Path(".dvc").is_dir() else []


def first_rows(plan: Plan) -> Table:
    """Return the used columns of the first rows."""
    table = Table(title="First rows", title_justify="left")
    used = [*plan.decision.text_columns, plan.decision.label_column]
    for name in used:
        table.add_column(Text(visible(name)), overflow="fold")
    for row in plan.first:
        cells = [visible(row[list(plan.columns).index(name)] or "") for name in used]
        table.add_row(*(Text(cell if len(cell) <= WIDTH else cell[: WIDTH - 1] + "…") for cell in cells))
    return table


def splits_table(plan: Plan) -> Table:
    """Return the rows and classes of each split, as the stage ``download`` will write them, and its file if it has one."""
    table = Table(show_header=False, box=None)
    for split in SPLITS:
        classes = plan.classes[split]
        file = str(plan.placement.file(split)) if split in plan.placement.specs else ""
        fractions = ", ".join(
            f"{name} {count / classes.total():.0%}" for name, count in classes.most_common(6) if name
        )
        more = f", and {len(classes) - 6} more" if len(classes) > 6 else ""
        table.add_row(
            Text(split), Text(f"{classes.total():,} rows"), Text(file), Text(visible(fractions + more))
        )
    return table


def split_notes(plan: Plan) -> list[str]:
    """Return how the train file is divided, and which rows are left out."""
    notes = []
    if plan.split is not None:
        taken = " and ".join(
            f"{name} ({getattr(plan.split, name):.0%})" for name in SPLITS[1:] if getattr(plan.split, name)
        )
        kept = f"all rows of a {plan.split.by!r} are" if plan.split.by else "equal texts are"
        notes.append(
            f"{taken} taken from {plan.placement.file('train').name} by the stage download (data.split);"
            f" {kept} in one split."
        )
    if rows := plan.classes["test"].total():
        notes.append(TASKS[plan.decision.task].resolution(rows))
    if plan.left_out.incomplete:
        notes.append(f"{plan.left_out.incomplete:,} rows without text or label are left out (data.bad_rows).")
    if plan.left_out.unreadable:
        shown = "\n    ".join(plan.left_out.first)
        notes.append(
            f"{plan.left_out.unreadable:,} rows that cannot be read are left out (data.bad_rows):\n   "
            f" {shown}"
        )
    return notes


def warnings_of_plan(plan: Plan, params: Params) -> list[str]:
    """Return warnings: what would stop the pipeline, or give a poor model."""
    messages = [f"{target} is replaced: its content differs." for target in plan.placement.replaced]
    classes = plan.classes
    if "-1" in classes["train"]:
        messages.append(
            "! -1 is a class like the others. If it means that a label is missing, empty these cells."
        )
    if params.data.max_rows is not None:
        messages.append(
            f"! data.max_rows is {params.data.max_rows:,}: more rows of a split are not used. Set it to null"
            " to use all."
        )
    least = params.validate_.rows.min
    if few := [split for split in SPLITS if classes[split].total() < least]:
        messages.append(
            f"! {' and '.join(few)}: fewer than {least} rows (validate.rows.min), so the data checks will"
            " fail."
        )
    if rare := [name for name, rows in sum(classes.values(), Counter()).items() if rows == 1 and name]:
        messages.append(
            f"! Only one row has the label {listed(rare, 5)}: a typo, or the header of another file?"
        )
    absent = {split: sorted(set(classes["train"]) - set(classes[split])) for split in SPLITS[1:]}
    messages += [
        f"! {split} has no rows of {', '.join(names[:5])}{', ...' * (len(names) > 5)}."
        for split, names in absent.items()
        if names
    ]
    return messages


def show_next_steps(plan: Plan, written: bool) -> None:
    """Print what was written (``written``: also ``params.yaml``) and what to do next."""
    changed = [*(["params.yaml"] if written else []), *map(str, plan.placement.copies)]
    corrections = [str(path) for path in (label_file(), dropped_file()) if written and path.exists()]
    remove = (
        f"  git rm {' '.join(corrections)}\n                        unless these corrections are of this"
        " data\n"
        if corrections
        else ""
    )
    Console().print(
        Text(
            f"\nWritten: {', '.join(changed) or 'nothing, all is there already'}\nNext:\n{remove}  dvc repro "
            "            run the pipeline\n  tuneline run          train only, beside this tree; tuneline"
            " run KEY=VALUE tries another value\n  docs/your-data.md     columns, splits, encodings, trying"
            " other values\n  docs/fine-tune.md     checkpoints"
        ),
        soft_wrap=True,
    )
    if not is_followed_by_git(plan):
        say(
            "git pull and git switch bring .dvc files, not their data. To have them bring it: python -m"
            " tuneline.project.git_hook"
        )


def is_followed_by_git(plan: Plan) -> bool:
    """Return False if DVC keeps the data, and this clone has no hook with which git brings it."""
    return file_of_dvc(Path(), plan.placement.file("train")) is None or git_hook.is_installed(Path())


def is_current(plan: Plan, params: Params) -> bool:
    """Return True if ``params.yaml`` is for this data already."""
    data, decision = params.data, plan.decision
    current = (data.source, data.path, tuple(data.text_columns), data.label_column, data.task)
    return current == (
        "files",
        plan.placement.data_path,
        decision.text_columns,
        decision.label_column,
        decision.task,
    )


def plan_params(plan: Plan, metric: str, current: bool) -> dict[str, Any]:
    """Return the parameters for a plan, by dotted key.

    The current ``metric`` stays if it suits the task; with ``current`` parameters for this data, its class
    names and behaviour tests too.
    """
    layout = plan.layout
    delimited, tabs = layout.kind == "delimited", layout.delimiter == "\t"
    usual_quoting = "literal" if tabs else "standard"
    task: TaskKind = plan.decision.task
    metric_kind = TASKS[task].metric_kind
    suitable = {metric.name for metric in metrics_for(metric_kind) if metric.validated}
    bad_rows = (
        {"data.bad_rows": "skip", "data.max_bad_share": plan.max_bad_share} if plan.left_out.share else {}
    )
    of_other_data = (
        {}
        if current
        else {
            "data.label_names": None,
            "data.as_of": None,
            "data.last_days": None,
            "evaluate.behaviour": None,
        }
    )
    return {
        "data.source": "files",
        "data.path": plan.placement.data_path,
        "data.name": None,
        "data.revision": None,
        "data.splits": {split: plan.placement.specs.get(split, split) for split in SPLITS},
        "data.split": None if plan.split is None else plan.split.model_dump(),
        "data.text_columns": list(plan.decision.text_columns),
        "data.label_column": plan.decision.label_column,
        "data.task": task,
        "data.files.delimiter": (
            layout.delimiter if delimited and not tabs and layout.delimiter != "," else None
        ),
        "data.files.quoting": layout.quoting if delimited and layout.quoting != usual_quoting else None,
        "data.files.quote": layout.dialect.quote,
        "data.files.escape": layout.dialect.escape,
        "data.files.skip_lines": layout.dialect.skip_lines,
        "data.files.decimal": layout.dialect.decimal,
        "data.files.columns": list(plan.columns) if delimited and not layout.header else None,
        "data.files.encoding": "utf-8" if layout.kind == "parquet" else layout.encoding.removesuffix("-sig"),
        **bad_rows,
        **of_other_data,
        "train.metric": metric if metric in suitable else primary_metric(metric_kind).name,
    }
