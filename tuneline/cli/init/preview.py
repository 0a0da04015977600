"""Output of ``tuneline init``: the plan before it is written, and the next steps after."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from tuneline.cli.console import Console
from tuneline.cli.init.planning import Plan
from tuneline.corrections import dropped_file, label_file
from tuneline.params import Params
from tuneline.paths import SPLITS
from tuneline.readers.rows import listed
from tuneline.terminal import visible

WIDTH = 60


def show_plan(plan: Plan, params: Params) -> None:
    """Print first rows, decisions, splits and warnings."""
    console = Console()
    console.print(first_rows(plan))
    for reason in plan.decision.reasons:
        console.print(Text(f"  {reason}"), soft_wrap=True)
    console.print(Text(f"  format: {layout_text(plan)}\n"), soft_wrap=True)
    console.print(splits_table(plan))
    for note in [*plan.notes, *split_notes(plan), *warnings(plan, params)]:
        console.print(Text(f"  {note}"), soft_wrap=True)


def show_changes(changes: Mapping[str, tuple[Any, Any]]) -> None:
    """Print the parameters that will change."""
    console = Console()
    console.print(Text("\nparams.yaml" + ("" if changes else ": nothing to change")))
    for key, (old, new) in changes.items():
        console.print(Text(f"  {key}: {_plain(old)} -> {_plain(new)}"), soft_wrap=True)


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
        fractions = ", ".join(f"{name} {count / classes.total():.0%}" for name, count in classes.most_common(6) if name)
        more = f", and {len(classes) - 6} more" if len(classes) > 6 else ""
        table.add_row(Text(split), Text(f"{classes.total():,} rows"), Text(file), Text(visible(fractions + more)))
    return table


def layout_text(plan: Plan) -> str:
    """Return a description of the layout."""
    layout = plan.layout
    if layout.kind != "delimited":
        return {"jsonl": f"JSON lines, {layout.encoding}", "parquet": "Parquet"}[layout.kind]
    delimiter = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}[layout.delimiter]
    quotes = "quotes enclose fields" if layout.quoting == "standard" else "quotes are literal"
    header = "first line names the columns" if layout.header else "no header line"
    return f"{delimiter}, {quotes}, {header}, {layout.encoding}"


def split_notes(plan: Plan) -> list[str]:
    """Return how the train file is divided, and which rows are left out."""
    notes = []
    if plan.split is not None:
        taken = " and ".join(f"{name} ({getattr(plan.split, name):.0%})" for name in SPLITS[1:] if getattr(plan.split, name))
        kept = f"all rows of a {plan.split.by!r} are" if plan.split.by else "equal texts are"
        notes.append(f"{taken} taken from {plan.placement.file('train').name} by the stage download (data.split); {kept} in one split.")
    if plan.left_out.incomplete:
        notes.append(f"{plan.left_out.incomplete:,} rows without text or label are left out (data.bad_rows).")
    if plan.left_out.unreadable:
        shown = "\n    ".join(plan.left_out.first)
        notes.append(f"{plan.left_out.unreadable:,} rows that cannot be read are left out (data.bad_rows):\n    {shown}")
    return notes


def warnings(plan: Plan, params: Params) -> list[str]:
    """Return warnings: what would stop the pipeline, or give a poor model."""
    messages = [f"{target} is replaced: its content differs." for target in plan.placement.replaced]
    classes = plan.classes
    if "-1" in classes["train"]:
        messages.append("! -1 is a class like the others. If it means that a label is missing, empty these cells.")
    if params.data.max_rows is not None:
        messages.append(f"! data.max_rows is {params.data.max_rows:,}: more rows of a split are not used. Set it to null to use all.")
    least = params.validate_.rows.min
    if few := [split for split in SPLITS if classes[split].total() < least]:
        messages.append(f"! {' and '.join(few)}: fewer than {least} rows (validate.rows.min), so the data checks will fail.")
    if rare := [name for name, rows in sum(classes.values(), Counter()).items() if rows == 1 and name]:
        messages.append(f"! Only one row has the label {listed(rare, 5)}: a typo, or the header of another file?")
    absent = {split: sorted(set(classes["train"]) - set(classes[split])) for split in SPLITS[1:]}
    messages += [
        f"! {split} has no rows of {', '.join(names[:5])}{', ...' * (len(names) > 5)}." for split, names in absent.items() if names
    ]
    return messages


def show_next_steps(plan: Plan, written: bool) -> None:
    """Print what was written and what to do next.

    Args:
        plan: The plan.
        written: ``params.yaml`` was changed.
    """
    changed = [*(["params.yaml"] if written else []), *map(str, plan.placement.copies)]
    corrections = [str(path) for path in (label_file(), dropped_file()) if written and path.exists()]
    remove = f"  git rm {' '.join(corrections)}\n                        unless these corrections are of this data\n" if corrections else ""
    Console().print(
        Text(
            f"\nWritten: {', '.join(changed) or 'nothing, all is there already'}\n"
            f"Next:\n{remove}"
            "  dvc repro             run the pipeline\n"
            f"  dvc add {plan.placement.tracked}\n"
            "                        version the data with DVC\n"
            "  docs/your-data.md     columns, splits, encodings, trying other values\n"
            "  docs/fine-tune.md     checkpoints"
        ),
        soft_wrap=True,
    )


def _plain(value: Any) -> str:
    return "null" if value is None else str(value)
