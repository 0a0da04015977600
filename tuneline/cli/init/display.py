"""What ``tuneline init`` prints: the plan, the parameters that will change, and what to do next."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from tuneline.analysis.corrections import dropped_file, label_file
from tuneline.cli.console import Console
from tuneline.cli.init.class_counts import SplitCounts
from tuneline.cli.init.metric_choice import choose_metric, order_notes
from tuneline.cli.init.notes import label_notes, split_notes, warnings_of_plan
from tuneline.cli.init.parameters import is_current
from tuneline.cli.init.planning import Plan
from tuneline.cli.init.versioning import is_followed_by_git
from tuneline.columns.profiles import NESTED
from tuneline.params import Params
from tuneline.paths import SPLITS
from tuneline.runtime.terminal import say, visible
from tuneline.runtime.wording import first_of

WIDTH = 60
"""Characters of a cell."""
LISTED_CLASSES = 6


def show_plan(plan: Plan, params: Params) -> None:
    """Print first rows, decisions, splits and warnings."""
    console = Console()

    # what was decided, from the rows that the user knows
    console.print(preview_table(plan))
    for reason in [*plan.decision.reasons, *label_notes(plan)]:
        console.print(Text(f"  {reason}"), soft_wrap=True)
    console.print(Text(f"  format: {plan.layout.described()}\n"), soft_wrap=True)

    # what the files hold
    console.print(splits_table(plan))
    metric = choose_metric(plan, params.train.metric, is_current(plan, params))
    notes = plan.notes + split_notes(plan, metric.name) + order_notes(plan)
    if metric.reason:
        notes.append(metric.reason)
    for note in notes + warnings_of_plan(plan, params):
        console.print(Text(f"  {note}"), soft_wrap=True)


def preview_table(plan: Plan) -> Table:
    """Return the used columns of the first rows."""
    table = Table(title="First rows", title_justify="left")
    names = [*plan.decision.text_columns, *plan.decision.label_columns[:LISTED_CLASSES]]
    positions = list(map(list(plan.columns).index, names))
    for name in names:
        table.add_column(Text(visible(name)), overflow="fold")
    for row in plan.first:
        cells = []
        for position in positions:
            cell = visible((row[position] or "").removeprefix(NESTED))
            cells.append(Text(_shortened(cell)))
        table.add_row(*cells)
    return table


def _shortened(cell: str) -> str:
    if len(cell) <= WIDTH:
        return cell
    return cell[: WIDTH - 1] + "…"


def splits_table(plan: Plan) -> Table:
    """Return the rows and classes of each split, as the stage ``download`` will write them, and its file."""
    table = Table(show_header=False, box=None)
    for split in SPLITS:
        counts = plan.counts[split]
        file = ""
        if split in plan.placement.specs:
            file = str(plan.placement.file(split))
        rows = f"{counts.rows:,} rows"
        table.add_row(Text(split), Text(rows), Text(file), Text(visible(_class_shares(counts))))
    return table


def _class_shares(counts: SplitCounts) -> str:
    """Return the share of rows of each class, the most frequent class first; nothing in a regression."""
    shares = []
    classes = counts.classes
    for name, rows in classes.most_common():
        if name:  # The single class of a regression has no name.
            shares.append(f"{name} {rows / counts.rows:.0%}")
    return first_of(shares, LISTED_CLASSES)


def show_changes(changes: Mapping[str, tuple[Any, Any]]) -> None:
    """Print the parameters that will change, each with its value before and after."""
    console = Console()
    heading = "\nparams.yaml"
    if not changes:
        heading += ": nothing to change"
    console.print(Text(heading))
    for key, (before, after) in changes.items():
        console.print(Text(f"  {key}: {_as_yaml(before)} -> {_as_yaml(after)}"), soft_wrap=True)


def _as_yaml(value: Any) -> Any:
    return "null" if value is None else value


def show_next_steps(plan: Plan, written: bool) -> None:
    """Print what was written (``written``: also ``params.yaml``) and what to do next."""
    files = list(map(str, plan.placement.copies))
    if written:
        files.insert(0, "params.yaml")
    lines = ["", f"Written: {', '.join(files) or 'nothing, all is there already'}", "Next:"]

    # Corrections of former data would be applied to the rows of this data.
    corrections = []
    for path in (label_file(), dropped_file()):
        if written and path.exists():
            corrections.append(str(path))
    if corrections:
        lines += [
            f"  git rm {' '.join(corrections)}",
            "                        unless these corrections are of this data",
        ]
    lines += [
        "  dvc repro             run the pipeline",
        "  dvc exp run --temp train -S KEY=VALUE   train with another value, beside this tree",
        "  docs/your-data.md     columns, splits, encodings, trying other values",
        "  docs/fine-tune.md     checkpoints",
    ]
    Console().print(Text("\n".join(lines)), soft_wrap=True)

    if not is_followed_by_git(plan):
        say(
            "git pull and git switch bring .dvc files, not their data. To have them bring it: python -m"
            " tuneline.repository.git_hook"
        )
