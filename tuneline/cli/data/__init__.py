"""``tuneline data``: what to do about rows that the data checks found, and how the data changed."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tuneline.core.terminal import progress, say

app = typer.Typer(
    help="Act on what the data checks found, and see how the data changed.", no_args_is_help=True
)

CheckOption = Annotated[
    list[str],
    typer.Option("--check", metavar="CHECK", help="Drop the rows that violate this data check; repeatable"),
]
From = Annotated[
    Literal["train", "validation", "test"] | None,
    typer.Option("--from", help="Drop rows of this split only; of a pair, the row in it"),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be dropped; write nothing")]

TextFile = Annotated[Path, typer.Argument(metavar="FILE", help="CSV, TSV or JSON Lines, plain or .gz")]
Encoding = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of the lines that are not UTF-8; default: detected")
]
Mojibake = Annotated[bool, typer.Option("--mojibake", help="Also convert lines such as 'CafÃ©' for 'Café'")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write; default: only show the lines")
]
Last = Annotated[int, typer.Option(min=1, help="Number of versions to show, the newest first")]
Page = Annotated[Path, typer.Option("--output", "-o", help="HTML file to write")]


@app.callback()
def data() -> None:
    """Act on what the data checks found, and see how the data changed."""


@app.command("drop")
def drop(check: CheckOption, from_split: From = None, dry_run: DryRun = False) -> None:
    """Leave rows that violate a data check out of the data: list them in data/corrections/dropped.csv, which the next `dvc repro` applies.

    The source is not changed. The rows of every check are in reports/checks/rows/.
    """
    import pyarrow as pa

    from tuneline.analysis.corrections import NEXT_STEPS, Corrections, corrections_locked, dropped_file
    from tuneline.cli.data.repairs import added, choose_rows, refuse_empty_splits, rows_of_split
    from tuneline.core.paths import FAILING_ROWS, RAW, SPLITS
    from tuneline.core.tables import SplitReader, check_text_columns
    from tuneline.params.loading import load_params

    params = load_params()
    for split in SPLITS:
        check_text_columns(SplitReader.open(RAW, split, "download"), params.data.text_columns)
    choices = []
    for name in dict.fromkeys(check):
        with progress(f"data drop: {name}"):
            choices.append(choice := choose_rows(name, params, from_split))
        counts = [
            f"{number:,} of {rows_of_split(split):,} rows of {split}" for split, number in choice.rows.items()
        ]
        left = f"; {choice.left:,} more are not in {from_split}" if choice.left else ""
        none = "" if counts or left else f": {FAILING_ROWS}/ has no file of it"
        say(f"{name}: {', '.join(counts) or 'no rows'} to drop{none}{left}.")
        refuse_empty_splits(choice)
    with corrections_locked():
        present = Corrections.read()
        dropped = added(present.dropped, pa.concat_tables([choice.entries for choice in choices]))
        if not dry_run:
            Corrections(present.labels, dropped).write()
    new = dropped.num_rows - present.dropped.num_rows
    lines = f"{new:,} new line{'s' * (new != 1)}, {dropped.num_rows:,} in all"
    say(f"{dropped_file()}: {lines}{' if this were no dry run' if dry_run else ''}.")
    if any(choice.rows for choice in choices) and not dry_run:
        say(NEXT_STEPS)


@app.command("history")
def history(last: Last = 20, output: Page = Path("reports/data-history.html")) -> None:
    """Write a page about the versions of the data: rows, classes, lengths, words, drift and failed checks of each.

    A version is in a commit of the current branch, or in one that the model registry names, and of the same
    source and columns as the present one. DVC's cache has their profiles.
    """
    from tuneline.cli.data.history import FETCH, changes_between, read_versions, render_history
    from tuneline.core.atomic_files import replace_file
    from tuneline.core.errors import StageError
    from tuneline.project.repo import git

    root = Path()
    if not (root / "dvc.yaml").exists():
        raise StageError(f"{root.resolve()} has no dvc.yaml.", "Run this in the root of the project.")
    if not git(root, "rev-parse", "--git-dir"):
        raise StageError(
            f"{root.resolve()} is not a git repository.", "Versions of the data are commits: run git init."
        )
    with progress("data history: versions in git and in DVC's cache"):
        versions = read_versions(root, last + 1)
    if not versions:
        raise StageError(
            "No commit has a version of the data.", "Run `dvc repro`, and commit dvc.lock and metrics."
        )
    shown = versions[:last]
    output.parent.mkdir(parents=True, exist_ok=True)
    with progress("data history: differences"), replace_file(output) as partial:
        changes = [
            changes_between(version, before)
            for version, before in zip(shown, [*versions[1:], None], strict=False)
        ]
        partial.write_text(render_history(changes, more=len(versions) > last), encoding="utf-8")
    missing = sum(version.profile is None for version in shown)
    if missing:
        say(
            f"The profile of {missing} of {len(shown)} versions is not in DVC's cache: `{FETCH}` gets what"
            " the remote has.",
            error=True,
        )
    say(f"{len(shown)} version{'s' * (len(shown) != 1)} of the data: {output}")


@app.command("recode")
def recode(
    file: TextFile, encoding: Encoding = None, mojibake: Mojibake = False, output: Output = None
) -> None:
    """Show the lines of a text file that are not UTF-8, and write a copy in which they are."""
    from tuneline.cli.data.repairs import recode_file as write
    from tuneline.readers.text import known_encoding

    write(file, None if encoding is None else known_encoding(encoding), mojibake, output)
