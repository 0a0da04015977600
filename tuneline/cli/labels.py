"""``tuneline labels``: which labels are probably wrong, and the corrections of people."""

from pathlib import Path
from typing import Annotated

import typer

from tuneline.core.runtime.errors import InputError
from tuneline.core.runtime.terminal import progress, say

app = typer.Typer(help="Find and correct wrong labels.", no_args_is_help=True)


@app.callback()
def labels() -> None:
    """Find and correct wrong labels."""


@app.command("review")
def review(
    output: Annotated[Path, typer.Option("--output", "-o", help="CSV file to write")] = Path(
        "reports/labels/review.csv"
    ),
    rows: Annotated[int, typer.Option(min=1, help="Rows of the file, at most")] = 300,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that has labels")] = False,
) -> None:
    """Write a CSV file of the labels that are probably wrong, with the labels that models propose.

    The most doubtful labels come first. Each row is predicted by models that were trained without it. People
    fill in the column `correct` where another label is right; then `tuneline labels apply` keeps the
    corrections.
    """
    from tuneline.core.params.loading import load_params
    from tuneline.rows.proposals.label_review import (
        CORRECT,
        ROLES,
        check_replaced,
        review_labels,
        write_review,
    )
    from tuneline.rows.proposals.spreadsheet import free_names

    params = load_params()
    if not force:
        check_replaced(output, params.data)
    with progress("labels review"):
        suspects, doubtful, total = review_labels(params, rows)
    say(f"The models give another label to {doubtful:,} of {total:,} rows.")
    if not suspects:
        return
    write_review(output, params.data, suspects)
    column = free_names(ROLES, params.data.text_columns)[CORRECT]  # a text column may be called `correct`
    say(
        f"The {len(suspects):,} most doubtful: {output}. A hard row looks like a wrong label: stop where most"
        f" labels are right. Fill in the column {column!r} where another label is right, then run:\n"
        f"  tuneline labels apply {output}"
    )


@app.command("apply")
def apply(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The file of `tuneline labels review`, with its column `correct` filled in"
        ),
    ],
) -> None:
    """Keep the corrections of a review in data/corrections/labels.csv, which the next `dvc repro` applies.

    The source is not changed.
    """
    from tuneline.core.params.loading import load_params
    from tuneline.core.paths import RAW, SPLITS
    from tuneline.core.stage.tables import SplitReader, check_text_columns
    from tuneline.rows.proposals.label_review import read_filled
    from tuneline.rows.proposals.review_corrections import merged
    from tuneline.rows.splits.corrections import NEXT_STEPS, Corrections, corrections_locked, label_file

    data = load_params().data
    for split in SPLITS:
        check_text_columns(SplitReader.open(RAW, split, "download"), data.text_columns)
    filled = read_filled(file, data)
    if not filled:
        raise InputError(f"{file}: no row has anything in its last column, the correct label.")

    # Locked from reading to writing: `tuneline data drop` writes the same file
    with corrections_locked():
        corrections = Corrections.read()
        table, new = merged(file, filled, data, corrections.labels)
        Corrections(table, corrections.dropped).write()
    say(f"{label_file()}: labels corrected: {new:,}.")
    if new:
        say(NEXT_STEPS)
