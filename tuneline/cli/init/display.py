"""What ``tuneline init`` prints: the plan, the parameters that will change, and what to do next."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from tuneline.cli.console import Console
from tuneline.core.params import Params
from tuneline.core.paths import CORRECTIONS, SPLITS
from tuneline.core.runtime.terminal import visible
from tuneline.operations.adoption.planning import Plan, choose_metric, is_current
from tuneline.rows.proposals.profiles import NESTED

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
    names = decision.text_columns + decision.label_columns[:LISTED_CLASSES]
    for name in names:
        table.add_column(Text(visible(name)), overflow="fold")
    for cells in zip(*(plan.columns[name].first for name in names), strict=True):
        shown = [visible((cell or "").removeprefix(NESTED)) for cell in cells]
        table.add_row(*(Text(cell[:WIDTH]) for cell in shown))
    Console().print(table)

    lines = list(decision.reasons)
    lines.append(f"format: {plan.source.described()}")
    # about the rows of each split, as the stage download will write them
    for split, rows in plan.rows.splits.items():
        lines.append(f"{split}: {rows:,} rows of {plan.placement.file(split)}")
    division = plan.division
    if division is not None and division.by:
        lines.append(f"all rows of one {division.by!r} are in one split")
    elif division is not None and division.by_time:
        lines.append(f"the latest rows by {division.by_time!r} are test, those before them validation")
    lines += plan.notes
    if plan.rows.left_out:
        lines.append(f"left out, because they cannot be read or lack text or label: {plan.rows.left_out:,}")
        lines += plan.rows.first
    _, reason = choose_metric(
        plan.rows.classes, decision, params.train.metric, current=is_current(plan, params)
    )
    if reason:
        lines.append(reason)
    least = params.validate_.min_rows
    small = [split for split in SPLITS if plan.rows.splits[split] < least]
    if small:
        lines.append(
            f"! {' and '.join(small)}: fewer than {least} rows (validate.min_rows), so the data checks will"
            " fail."
        )
    show_lines([f"  {line}" for line in lines])


def show_changes(changes: Mapping[str, tuple[Any, Any]]) -> None:
    """Print the parameters that will change, each with its value before and after."""
    lines = ["\nparams.yaml" if changes else "\nparams.yaml: nothing to change"]
    for key, values in changes.items():
        before, after = ("null" if value is None else value for value in values)
        lines.append(f"  {key}: {before} -> {after}")
    show_lines(lines)


def show_next_steps(plan: Plan, written: bool) -> None:
    """Print what was written (``written``: also ``params.yaml``) and what to do next."""
    files = list(map(str, plan.placement.copies))
    if written:
        files.insert(0, "params.yaml")
    lines = [f"\nWritten: {', '.join(files) or 'nothing, all is there already'}", "Next:"]

    # Corrections of former data would be applied to the rows of this data.
    corrections = sorted(map(str, CORRECTIONS.glob("*.csv")))
    if written and corrections:
        lines.append(f"  git rm {' '.join(corrections)}    unless these corrections are of this data")
    lines += [
        "  dvc repro             run the pipeline",
        "  dvc exp run --temp train -S KEY=VALUE   train with another value, beside this tree",
        "  docs/your-data.md     columns, splits, encodings, trying other values",
        "  docs/fine-tune.md     checkpoints",
    ]
    show_lines(lines)
