"""``tuneline experiments``: compare finished experiments on validation, take one over, remove some."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuneline.runtime.errors import StageError
from tuneline.runtime.terminal import say

if TYPE_CHECKING:
    from tuneline.experiments.saved import SavedExperiment

app = typer.Typer(
    help="Compare experiments on validation, take one over, remove some.", invoke_without_command=True
)

Sort = Annotated[
    str | None,
    typer.Option(
        "--sort", metavar="COLUMN", help="name, seconds, date, or a parameter. Default: the best first"
    ),
]
Filter = Annotated[
    str | None,
    typer.Option("--filter", metavar="TEXT", help="Only those with this text in their name or parameters"),
]
Csv = Annotated[bool, typer.Option("--csv", help="Print all values as CSV")]
All = Annotated[bool, typer.Option("--all", help="Also those on other commits than HEAD")]
Output = Annotated[Path, typer.Option("--output", "-o", help="HTML file to write")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite uncommitted changes of params.yaml")]
Named = Annotated[str, typer.Argument(metavar="NAME")]
Names = Annotated[list[str], typer.Argument(metavar="NAME...")]


@app.callback()
def table(
    ctx: typer.Context, sort: Sort = None, filtered: Filter = None, csv: Csv = False, every: All = False
) -> None:
    """Show the experiments on HEAD, the best first.

    `tuneline run` makes them, and `dvc exp show` knows them, too.
    """
    if ctx.invoked_subcommand is not None:
        return
    from tuneline.cli.console import Console
    from tuneline.cli.experiments.table import WIDE, as_csv, as_list, experiments_table
    from tuneline.experiments.in_progress import unfinished
    from tuneline.experiments.rows import chosen, read_rows

    root = Path.cwd()
    rows = chosen(read_rows(root, every=every), filtered, sort)
    if csv:
        say(as_csv(rows))
        return

    console = Console()
    if not rows.rows:
        say(
            "There is no such experiment on this commit. `tuneline run KEY=VALUE` makes one; --all shows"
            " those on other commits."
        )
    elif console.width >= WIDE:
        console.print(experiments_table(rows, every=every))
    else:
        console.print(as_list(rows, every=every))

    names = unfinished(root)
    if names:
        say(
            f"not finished: {' '.join(names)}. The same `tuneline run` resumes one; `tuneline experiments"
            " remove NAME...` discards some."
        )


@app.command("page")
def page(output: Output = Path("reports/experiments.html"), every: All = False) -> None:
    """Write a page with the learning curves, the parameters and the table of all experiments.

    It is one file, without scripts or network.
    """
    from tuneline.cli.experiments.page import render_experiments
    from tuneline.experiments.rows import read_rows
    from tuneline.params.params_file import write

    root = Path.cwd()
    rows = read_rows(root, every=every)
    if not rows.rows:
        raise StageError(
            "There is no experiment on this commit.",
            "`tuneline run KEY=VALUE` makes one; --all shows those on other commits.",
        )
    write(output, render_experiments(root, rows))
    say(f"experiments: {output}, {len(rows.rows)} experiments")


@app.command("apply")
def apply(name: Named, force: Force = False) -> None:
    """Take an experiment over: its params.yaml, dvc.lock, metrics and model.

    `dvc repro` then scores test, once, for this one.
    """
    from tuneline.experiments.applying import apply_experiment

    root = Path.cwd()
    changed = apply_experiment(root, _found(root, name), force=force)
    changes = ", ".join(changed) or "nothing has changed"
    say(f"experiments: {name} is in the working tree: {changes}.")
    say(f"Next: `dvc repro` scores test and exports; then: git commit -am 'Use {name}'")


@app.command("remove")
def remove(names: Names) -> None:
    """Remove experiments, also those that were interrupted.

    DVC's cache keeps their files until they are collected.
    """
    from tuneline.experiments.applying import delete
    from tuneline.experiments.in_progress import remove_unfinished, unfinished
    from tuneline.experiments.saved import find_experiment

    root = Path.cwd()
    for name in names:
        is_unfinished = name in unfinished(root)
        experiment = find_experiment(root, name)
        if not is_unfinished and experiment is None:
            _found(root, name)  # refuses the name
        if is_unfinished:
            remove_unfinished(root, name)
        if experiment is not None:
            delete(experiment)
        say(f"experiments: removed {name}")


def _found(root: Path, name: str) -> "SavedExperiment":
    """Return the experiment of that name; a ``StageError`` with the nearest one if there is none."""
    from tuneline.experiments.saved import find_experiment, saved_experiments
    from tuneline.readers.rows import nearest
    from tuneline.runtime.wording import listed

    experiment = find_experiment(root, name)
    if experiment:
        return experiment
    names = sorted({saved.name for saved in saved_experiments(root)})
    hint = f"There are {listed(names)}." if names else "`tuneline run` makes one."
    raise StageError(f"There is no experiment {name!r}{nearest(name, names)}.", hint)
