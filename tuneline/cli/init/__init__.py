"""``tuneline init``: propose columns, splits and training for the user's files, and write parameters."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from tuneline.core.runtime.errors import ParamsError, StageError


def command(  # noqa: PLR0917 - typer calls it by name
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="One file, or train.csv, validation.csv and test.csv"),
    ],
    checkpoint: Annotated[
        str | None, typer.Option(metavar="NAME", help="To fine-tune: name on the hub, or models/source/NAME")
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option(metavar="REV", help="Its commit, tag or branch; default: main"),
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Text column; twice for a pair of texts")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Label column; several, with 0 and 1, are a label each"),
    ] = None,
    task: Annotated[
        Literal["classification", "regression", "multilabel"] | None,
        typer.Option(help="Default: by the labels"),
    ] = None,
    separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Between the labels of a row, such as ';'")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Keep rows with the same value in one split, such as a customer's"
        ),
    ] = None,
    by_time: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Train on the earliest rows and test on the latest ones"),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Folder under data/source/; default: the name of the file")
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header", help="The first line names the columns or not; default: detected"
        ),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Such as cp1252; default: UTF-8 or UTF-16")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    force: Annotated[bool, typer.Option("--force", help="Do not ask; replace copies that differ")] = False,
) -> None:
    """Set up this checkout to learn from your own files (CSV, TSV, JSONL, Parquet; plain or .gz)."""
    from tuneline.cli.console import Console
    from tuneline.cli.init import display
    from tuneline.core.params import params_file
    from tuneline.core.params.loading import load_params
    from tuneline.core.paths import PARAMS
    from tuneline.core.repository.git import require_own_repository
    from tuneline.operations.adoption.checkpoints import open_checkpoint
    from tuneline.operations.adoption.placement import add_to_dvc, paths_for_dvc
    from tuneline.operations.adoption.planning import make_plan, plan_params
    from tuneline.operations.adoption.recipe import propose
    from tuneline.operations.adoption.rows import read_files
    from tuneline.rows.proposals.readings import UserChoices

    if revision is not None and checkpoint is None:
        raise ParamsError("--revision is that of a checkpoint.", "Add --checkpoint NAME, or leave it out.")
    require_own_repository(Path())
    params = load_params()
    opened = open_checkpoint(checkpoint, revision) if checkpoint is not None else None

    # data
    words = list(map(str, files))
    if checkpoint is not None:
        words += ["--checkpoint", checkpoint]
    choices = UserChoices(
        command=f"tuneline init {shlex.join(words)}",
        text=tuple(text or ()),
        label=tuple(label or ()),
        task=task,
        separator=separator and separator.replace("\\n", "\n").replace("\\t", "\t"),
        by=by,
        by_time=by_time,
        name=name,
    )
    with Console().status("Reading ..."):
        plan = make_plan(read_files(files, header, encoding, params.data), choices, params)
    display.show_plan(plan, params)

    # model and training
    values, reasons = propose(plan, params, opened)
    display.show_lines(["\nModel and training"] + [f"  {reason}" for reason in reasons])

    # what will change
    required = plan_params(plan, params) | values
    content = params_file.changed(PARAMS, required)
    changes = params_file.differing(PARAMS, required)
    display.show_changes(changes)
    to_add = paths_for_dvc(plan.placement, content)
    if to_add:
        paths = ", ".join(map(str, to_add))
        display.show_lines(
            [f"\nDVC keeps {paths} (dvc add), so that experiments and other machines have it."]
        )

    # files
    if changes or plan.placement.copies or to_add:
        confirm(plan.placement.replaced, yes=yes, force=force)
        # The files first: after an interruption in between, params.yaml still names files that exist.
        plan.placement.write()
        params_file.write(PARAMS, content)
        add_to_dvc(to_add)
    display.show_next_steps(plan, written=bool(changes))


def confirm(replaced: list[Path], *, yes: bool, force: bool) -> None:
    """Ask before anything is written; without an answer, nothing is.

    Copies that differ are only replaced with ``force``.
    """
    if force:
        return
    if replaced:
        names = " and ".join(map(str, replaced))
        raise StageError(f"nothing was written: {names} has another content.", "Add --force to replace it.")
    if yes:
        return
    if not sys.stdin.isatty():
        raise StageError(
            "nothing was written: cannot ask without a terminal.", "Add --yes to write without asking."
        )
    if not typer.confirm("Write this?", default=True):
        raise StageError("nothing was written.")
