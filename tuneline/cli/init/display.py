"""What ``tuneline init`` prints: the plan, the parameters that will change, and what to do next."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from tuneline.analysis.corrections import dropped_file, label_file
from tuneline.cli.console import Console
from tuneline.cli.init.notes import split_notes, warnings_of_plan
from tuneline.cli.init.planning import Plan
from tuneline.cli.init.versioning import is_followed_by_git
from tuneline.core.paths import SPLITS
from tuneline.core.terminal import say, visible
from tuneline.params import Params

WIDTH = 60
"""Characters of a cell."""
LISTED_CLASSES = 6


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


def first_rows(plan: Plan) -> Table:
    """Return the used columns of the first rows."""
    table = Table(title="First rows", title_justify="left")
    names = [*plan.decision.text_columns, plan.decision.label_column]
    positions = [list(plan.columns).index(name) for name in names]
    for name in names:
        table.add_column(Text(visible(name)), overflow="fold")
    for row in plan.first:
        table.add_row(*[Text(_shortened(visible(row[position] or ""))) for position in positions])
    return table


def _shortened(cell: str) -> str:
    if len(cell) <= WIDTH:
        return cell
    return cell[: WIDTH - 1] + "…"


def splits_table(plan: Plan) -> Table:
    """Return the rows and classes of each split, as the stage ``download`` will write them, and its file."""
    table = Table(show_header=False, box=None)
    for split in SPLITS:
        classes = plan.classes[split]
        file = str(plan.placement.file(split)) if split in plan.placement.specs else ""
        fractions = ", ".join(
            f"{name} {count / classes.total():.0%}"
            for name, count in classes.most_common(LISTED_CLASSES)
            if name
        )
        if len(classes) > LISTED_CLASSES:
            fractions += f", and {len(classes) - LISTED_CLASSES} more"
        table.add_row(Text(split), Text(f"{classes.total():,} rows"), Text(file), Text(visible(fractions)))
    return table


def show_changes(changes: Mapping[str, tuple[Any, Any]]) -> None:
    """Print the parameters that will change, each with its value before and after."""
    console = Console()
    heading = "\nparams.yaml" if changes else "\nparams.yaml: nothing to change"
    console.print(Text(heading))
    for key, (before, after) in changes.items():
        console.print(Text(f"  {key}: {_as_yaml(before)} -> {_as_yaml(after)}"), soft_wrap=True)


def _as_yaml(value: Any) -> Any:
    return "null" if value is None else value


def show_next_steps(plan: Plan, written: bool) -> None:
    """Print what was written (``written``: also ``params.yaml``) and what to do next."""
    files = [str(path) for path in plan.placement.copies]
    if written:
        files.insert(0, "params.yaml")
    lines = ["", f"Written: {', '.join(files) or 'nothing, all is there already'}", "Next:"]

    corrections = [str(path) for path in (label_file(), dropped_file()) if written and path.exists()]
    if corrections:
        lines += [
            f"  git rm {' '.join(corrections)}",
            "                        unless these corrections are of this data",
        ]
    lines += [
        "  dvc repro             run the pipeline",
        "  tuneline run          train only, beside this tree; tuneline run KEY=VALUE tries another value",
        "  docs/your-data.md     columns, splits, encodings, trying other values",
        "  docs/fine-tune.md     checkpoints",
    ]
    Console().print(Text("\n".join(lines)), soft_wrap=True)

    if not is_followed_by_git(plan):
        say(
            "git pull and git switch bring .dvc files, not their data. To have them bring it: python -m"
            " tuneline.project.git_hook"
        )
