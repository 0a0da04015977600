"""What ``tuneline init`` prints."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tuneline.cli.init.planning import Plan
from tuneline.params import Params
from tuneline.paths import SPLITS

WIDTH = 60
TOKENS_PER_WORD = 1.4
"""Of English in WordPieces, roughly."""


def show_plan(plan: Plan, folder: Path, changes: Mapping[str, tuple[Any, Any]], params: Params) -> None:
    """First rows, decisions, splits, changed parameters, warnings."""
    console = Console()
    console.print(first_rows(plan))
    for reason in plan.decision.reasons:
        console.print(Text(f"  {reason}"))
    console.print(Text(f"  files: {how(plan)}\n"))
    console.print(splits_table(plan, folder))
    for note in [*plan.notes, *warnings(plan, params)]:
        console.print(Text(f"  {note}"))
    console.print(Text("\nparams.yaml" + ("" if changes else ": nothing to change")))
    for key, (old, new) in changes.items():
        console.print(Text(f"  {key}: {_plain(old)} -> {_plain(new)}"))


def first_rows(plan: Plan) -> Table:
    """The columns that are used, as they were read."""
    table = Table(title="First rows", title_justify="left")
    used = [*plan.decision.text_columns, plan.decision.label_column]
    for name in used:
        table.add_column(Text(name), overflow="fold")
    for row in plan.first:
        cells = [row[list(plan.columns).index(name)] or "" for name in used]
        table.add_row(*(Text(cell if len(cell) <= WIDTH else cell[: WIDTH - 1] + "…") for cell in cells))
    return table


def splits_table(plan: Plan, folder: Path) -> Table:
    """What will lie under ``data/source/``."""
    table = Table(show_header=False, box=None)
    for split in SPLITS:
        classes = plan.classes[split]
        shares = ", ".join(f"{name} {count / classes.total():.0%}" for name, count in classes.most_common(6) if name)
        more = f", and {len(classes) - 6} more" if len(classes) > 6 else ""
        table.add_row(Text(str(plan.target(folder, split))), Text(f"{classes.total():,} rows"), Text(shares + more))
    return table


def how(plan: Plan) -> str:
    """How the files are written, in words."""
    layout = plan.layout
    if layout.kind != "delimited":
        return {"jsonl": f"JSON lines, {layout.encoding}", "parquet": "Parquet"}[layout.kind]
    delimiter = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}[layout.delimiter]
    quotes = "quotes are quoting" if layout.quoting == "standard" else "quotes are characters"
    header = "first line names the columns" if layout.header else "no header line"
    return f"{delimiter}, {quotes}, {header}, {layout.encoding}"


def warnings(plan: Plan, params: Params) -> list[str]:
    """What would stop the line, or make it learn little."""
    said = []
    classes, tokenize = plan.classes, params.tokenize
    least = params.validate_.rows.min
    if few := [split for split in SPLITS if classes[split].total() < least]:
        said.append(f"! {' and '.join(few)}: fewer than {least} rows (validate.rows.min), at which the data checks stop.")
    absent = {split: sorted(set(classes["train"]) - set(classes[split])) for split in SPLITS[1:]}
    said += [f"! {split} has no row of {', '.join(names[:5])}{', ...' * (len(names) > 5)}." for split, names in absent.items() if names]
    long = sum(one.words_at(0.9) for one in plan.profiles if one.name in plan.decision.text_columns) * TOKENS_PER_WORD
    if long > tokenize.max_length:
        said.append(
            f"! One row in ten is longer than about {long:.0f} tokens, and tokenize.max_length is {tokenize.max_length}: "
            "what is beyond it is cut. A longer one wants model.config.max_position_embeddings as long."
        )
    return said


def show_outcome(folder: Path) -> None:
    """What to do next."""
    Console().print(
        Text(
            f"\nWritten: params.yaml and {folder}/\n"
            "Next:\n"
            "  dvc repro             run the line\n"
            f"  dvc add {folder}\n"
            "                        version the data with DVC\n"
            "  docs/your-data.md     columns, splits, pretrained checkpoints"
        ),
        soft_wrap=True,
    )


def _plain(value: Any) -> str:
    return "null" if value is None else str(value)
