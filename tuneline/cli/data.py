"""``tuneline data``: what to do about rows that the data checks found."""

from typing import Annotated, Literal

import typer

from tuneline.core.runtime.terminal import progress, say

app = typer.Typer(help="Act on what the data checks found.", no_args_is_help=True)

CheckOption = Annotated[
    list[str],
    typer.Option("--check", metavar="CHECK", help="Drop the rows that violate this data check; repeatable"),
]
From = Annotated[
    Literal["train", "validation", "test"] | None,
    typer.Option("--from", help="Drop rows of this split only; of a pair, the row in it"),
]


@app.callback()
def data() -> None:
    """Act on what the data checks found."""


@app.command("drop")
def drop(check: CheckOption, from_split: From = None) -> None:
    """Leave rows that violate a data check out of the data.

    They are listed in data/corrections/dropped.csv, which the next `dvc repro` applies. The source is not
    changed. The rows of every check are in reports/checks/rows/.
    """
    import pyarrow as pa

    from tuneline.core.params.loading import load_params
    from tuneline.core.paths import RAW, SPLITS
    from tuneline.core.stage.tables import SplitReader, check_text_columns
    from tuneline.rows.proposals.dropped_rows import choose_rows, distinct
    from tuneline.rows.splits.corrections import NEXT_STEPS, Corrections, corrections_locked, dropped_file

    params = load_params()
    for split in SPLITS:
        check_text_columns(SplitReader.open(RAW, split, "download"), params.data.text_columns)

    # choose the rows of each check, and say how many
    entries = []
    for name in dict.fromkeys(check):
        with progress(f"data drop: {name}"):
            numbers, lines = choose_rows(name, params, from_split)
        entries.append(lines)
        counts = [f"{number:,} rows of {split}" for split, number in numbers.items()]
        say(f"{name}: {', '.join(counts) or 'no rows'} to drop.")

    # list them
    with corrections_locked():
        before = Corrections.read()
        dropped = distinct(pa.concat_tables([before.dropped, *entries]))
        Corrections(before.labels, dropped).write()

    # what was written, or would be
    new = dropped.num_rows - before.dropped.num_rows
    say(f"{dropped_file()}: {new:,} new lines, {dropped.num_rows:,} in all.")
    if new:
        say(NEXT_STEPS)
