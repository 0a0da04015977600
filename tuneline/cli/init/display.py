"""What ``tuneline init`` prints: the plan, the parameters that will change, and what to do next."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from tuneline.analysis.corrections import dropped_file, label_file
from tuneline.cli.console import Console
from tuneline.cli.init.metric_choice import choose_metric, test_note
from tuneline.cli.init.planning import Plan, is_current
from tuneline.columns.profiles import NESTED
from tuneline.params import Params
from tuneline.paths import SPLITS
from tuneline.runtime.terminal import visible

WIDTH = 60
"""Characters of a cell."""
LISTED_CLASSES = 6


def show_lines(lines: list[str]) -> None:
    """Print lines, which are not broken."""
    console = Console()
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def show_plan(plan: Plan, params: Params) -> None:
    """Print first rows, decisions, splits and warnings."""
    decision = plan.decision
    table = Table(title="First rows", title_justify="left")
    names = [*decision.text_columns, *decision.label_columns[:LISTED_CLASSES]]
    for name in names:
        table.add_column(Text(visible(name)), overflow="fold")
    for cells in zip(*(plan.columns[name].first for name in names), strict=True):
        table.add_row(*(Text(_shortened(cell or "")) for cell in cells))
    Console().print(table)
    reasons = [*decision.reasons, f"format: {plan.layout.described()}\n"]
    show_lines([f"  {reason}" for reason in reasons])

    # about the rows of each split, as the stage download will write them, and its file
    splits = Table(show_header=False, box=None)
    for split, rows in plan.rows.splits.items():
        file = str(plan.placement.file(split)) if split in plan.placement.specs else ""
        splits.add_row(Text(split), Text(f"{rows:,} rows"), Text(file))
    Console().print(splits)

    current = is_current(plan, params)
    metric, reason = choose_metric(plan.rows.classes, decision, params.train.metric, current=current)
    notes = [*plan.notes, *_division_notes(plan)]
    if plan.rows.splits["test"]:
        notes.append(test_note(plan.rows.splits["test"], decision, metric))
    if plan.rows.left_out:
        shown = "\n    ".join(plan.rows.first)
        notes.append(f"left out, because they cannot be read or lack text or label: {plan.rows.left_out:,}")
        notes.append(f"  {shown}" if shown else "")
    notes += [reason, *_limit_notes(plan, params)]
    show_lines([f"  {note}" for note in notes if note])


def _shortened(cell: str) -> str:
    cell = visible(cell.removeprefix(NESTED))
    if len(cell) <= WIDTH:
        return cell
    return cell[: WIDTH - 1] + "…"


def _division_notes(plan: Plan) -> list[str]:
    """Return how the train file is divided."""
    division = plan.division
    if division is None:
        return []
    taken = [f"{name} ({getattr(division, name):.0%})" for name in SPLITS[1:] if getattr(division, name)]
    how = "equal texts are in one split"
    if division.by:
        how = f"all rows of one {division.by!r} are in one split"
    elif division.by_time:
        how = f"the latest rows by {division.by_time!r} are test, those before them validation"
    file = plan.placement.file("train").name
    return [f"{' and '.join(taken)} taken from {file} by the stage download (data.split); {how}."]


def _limit_notes(plan: Plan, params: Params) -> list[str]:
    """Return what is replaced, and which splits are too small."""
    notes = [f"{target} is replaced: its content differs." for target in plan.placement.replaced]
    least = params.validate_.min_rows
    small = [split for split in SPLITS if plan.rows.splits[split] < least]
    if small:
        notes.append(
            f"! {' and '.join(small)}: fewer than {least} rows (validate.min_rows), so the data checks will"
            " fail."
        )
    return notes


def show_changes(changes: Mapping[str, tuple[Any, Any]]) -> None:
    """Print the parameters that will change, each with its value before and after."""
    lines = ["\nparams.yaml" if changes else "\nparams.yaml: nothing to change"]
    for key, values in changes.items():
        before, after = ("null" if value is None else value for value in values)
        lines.append(f"  {key}: {before} -> {after}")
    show_lines(lines)


def show_next_steps(plan: Plan, written: bool) -> None:
    """Print what was written (``written``: also ``params.yaml``) and what to do next."""
    files = [*(["params.yaml"] if written else []), *map(str, plan.placement.copies)]
    lines = [f"\nWritten: {', '.join(files) or 'nothing, all is there already'}", "Next:"]

    # Corrections of former data would be applied to the rows of this data.
    corrections = [str(path) for path in (label_file(), dropped_file()) if written and path.exists()]
    if corrections:
        lines.append(f"  git rm {' '.join(corrections)}    unless these corrections are of this data")
    lines += [
        "  dvc repro             run the pipeline",
        "  dvc exp run --temp train -S KEY=VALUE   train with another value, beside this tree",
        "  docs/your-data.md     columns, splits, encodings, trying other values",
        "  docs/fine-tune.md     checkpoints",
    ]
    show_lines(lines)
