"""``tuneline init``: read the user's files, propose columns, splits and training, ask, copy the files, write ``params.yaml``."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tuneline.core.errors import ParamsError, StageError
from tuneline.core.terminal import say, visible

if TYPE_CHECKING:
    from tuneline.cli.init.planning import Plan, UserChoices
    from tuneline.params import Params


def command(  # noqa: PLR0917 - typer calls it by name
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="One file, or train.csv, validation.csv and test.csv, or their folder"
        ),
    ],
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint", metavar="NAME", help="To fine-tune: name on the hub, or models/source/NAME"
        ),
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option(
            "--revision", metavar="REV", help="Of the checkpoint: commit, tag or branch; default: main"
        ),
    ] = None,
    trial: Annotated[
        bool, typer.Option("--trial/--no-trial", help="Train a few steps to say what the training will cost")
    ] = True,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="COLUMN", help="Text column; twice for a pair of texts"),
    ] = None,
    label: Annotated[str | None, typer.Option("--label", metavar="COLUMN", help="Label column")] = None,
    task: Annotated[
        Literal["classification", "regression"] | None, typer.Option("--task", help="Default: by the labels")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by", metavar="COLUMN", help="Keep rows with the same value in one split, such as a customer's"
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Folder under data/source/; default: the name of the file")
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header", help="The first line names the columns or not; default: detected"
        ),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option("--encoding", metavar="NAME", help="Such as cp1252; default: detected")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; keep copies that differ")] = False,
    force: Annotated[bool, typer.Option("--force", help="Do not ask; replace copies that differ")] = False,
) -> None:
    """Set up this checkout to learn from your own files (CSV, TSV, JSONL, Parquet; plain or .gz)."""
    from tuneline.cli.console import Console
    from tuneline.cli.init import planning, recipe
    from tuneline.core.paths import PARAMS
    from tuneline.params.loading import load_params
    from tuneline.project import params_file
    from tuneline.project.repo import require_own_repository

    if revision is not None and checkpoint is None:
        raise ParamsError(
            "--revision is that of a checkpoint, and there is no --checkpoint.",
            "Add --checkpoint NAME, or leave it out.",
        )
    require_own_repository(Path())
    params = load_params()
    choices = planning.UserChoices(tuple(text or ()), label, task, header, encoding, by, name)
    terminal, unasked = sys.stdin.isatty(), yes or force
    with Console().status("Reading ..."):
        opened = None if checkpoint is None else recipe.open_checkpoint(checkpoint, revision)
    plan = make_plan(files, choices, params, may_ask=terminal and not unasked)
    planning.show_plan(plan, params)
    current = planning.is_current(plan, params)
    if opened is None and not current and not unasked and terminal:
        opened = recipe.choose_checkpoint(plan, params)
    required = planning.plan_params(plan, params.train.metric, current)
    required |= recipe.propose(plan, params, opened, trial and (unasked or terminal))
    content = params_file.changed(PARAMS, required)
    changes = params_file.differing(PARAMS, required)
    planning.show_changes(changes)
    adds = planning.show_versioned(plan, content)
    if changes or plan.placement.copies or adds:
        confirm([str(path) for path in plan.placement.replaced], yes, force)
        # The files first: after an interruption in between, params.yaml still names files that exist.
        plan.placement.write()
        params_file.write(PARAMS, content)
        planning.version(plan, content)
        if written := recipe.write_sweep(plan, load_params()):
            say(
                f"init: wrote {written}: nine variants of this training, compared by `tuneline sweep"
                f" {written}`"
            )
        if terminal and not unasked and not planning.is_followed_by_git(plan):
            offer_hook()
    planning.show_next_steps(plan, written=bool(changes))


def make_plan(files: list[Path], choices: "UserChoices", params: "Params", may_ask: bool) -> "Plan":
    """Return the plan; where the first line can be a header or a row, ask for it, or stop with the option for each."""
    from tuneline.cli.console import Console
    from tuneline.cli.init.planning import UnclearHeaderError, plan

    try:
        with Console().status("Reading ..."):
            return plan(files, choices, params)
    except UnclearHeaderError as unclear:
        if not may_ask:
            raise
        say(unclear.problem)
    header = typer.confirm("Does it name the columns?", default=True)
    with Console().status("Reading ..."):
        return plan(files, replace(choices, header=header), params)


def offer_hook() -> None:
    """Ask whether git shall bring the data of ``.dvc`` files, too: by itself it brings only these."""
    from tuneline.project import git_hook

    if typer.confirm(
        "Let git pull and git switch bring the data of .dvc files, too (a hook in .git/hooks)?", default=True
    ):
        try:
            git_hook.install(Path())
        except StageError as error:
            say(f"! {error}", error=True)


def confirm(replaced: list[str], yes: bool, force: bool) -> None:
    """Ask before anything is written; without an answer, nothing is.

    ``yes`` does not answer whether copies that differ are replaced.
    """
    if force or (yes and not replaced):
        return
    if yes:
        raise StageError(
            f"nothing was written: the content of {' and '.join(replaced)} differs.",
            "Add --force to replace it.",
        )
    question = (
        f"Replace {' and '.join(replaced)}, whose content differs, and write this?"
        if replaced
        else "Write this?"
    )
    if not sys.stdin.isatty():
        option = "--force" if replaced else "--yes"
        raise StageError(
            f"nothing was written: cannot ask without a terminal ({question})",
            f"Add {option} to write without asking.",
        )
    if not typer.confirm(visible(question), default=not replaced):
        raise StageError("nothing was written.")
