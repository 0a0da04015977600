"""``tuneline data``: what to do about rows that the data checks found."""

from typing import Annotated, Literal

import typer

from tuneline.terminal import say

app = typer.Typer(help="Act on what the data checks found.", no_args_is_help=True)

CheckOption = Annotated[list[str], typer.Option("--check", metavar="CHECK", help="Drop the rows that violate this data check; repeatable")]
From = Annotated[
    Literal["train", "validation", "test"] | None, typer.Option("--from", help="Drop rows of this split only; of a pair, the row in it")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be dropped; write nothing")]


@app.callback()
def data() -> None:
    """Act on what the data checks found."""


@app.command("drop")
def drop(check: CheckOption, from_split: From = None, dry_run: DryRun = False) -> None:
    """Leave rows that violate a data check out of the data: list them in data/corrections/dropped.csv, which the next `dvc repro` applies.

    The source is not changed. The rows of every check are in reports/checks/rows/.
    """
    import pyarrow as pa

    from tuneline.cli.data.dropping import added, choose, refuse_empty_splits, rows_of_split
    from tuneline.corrections import NEXT_STEPS, Corrections, dropped_file, locked
    from tuneline.params.loading import load_params
    from tuneline.paths import RAW, SPLITS, split_file
    from tuneline.stage import require

    params = load_params()
    for split in SPLITS:
        require(split_file(RAW, split), "download")
    choices = []
    for one in dict.fromkeys(check):
        choices.append(choice := choose(one, params, from_split))
        counts = [f"{number:,} of {rows_of_split(split):,} rows of {split}" for split, number in choice.rows.items()]
        left = f"; {choice.left:,} more are not in {from_split}" if choice.left else ""
        say(f"{one}: {', '.join(counts) or 'no rows'} to drop{left}.")
        refuse_empty_splits(choice)
    with locked():
        present = Corrections.read()
        dropped = added(present.dropped, pa.concat_tables([choice.entries for choice in choices]))
        if not dry_run:
            Corrections(present.labels, dropped).write()
    new = dropped.num_rows - present.dropped.num_rows
    lines = f"{new:,} new line{'s' * (new != 1)}, {dropped.num_rows:,} in all"
    say(f"{dropped_file()}: {lines}{' if this were no dry run' if dry_run else ''}.")
    if any(choice.rows for choice in choices) and not dry_run:
        say(NEXT_STEPS)
