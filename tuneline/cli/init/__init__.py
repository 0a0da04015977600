"""``tuneline init``: propose columns, splits and training for the user's files, ask, and write parameters."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tuneline.runtime.errors import ParamsError, StageError
from tuneline.runtime.terminal import say, visible

if TYPE_CHECKING:
    from tuneline.cli.init.planning import Plan
    from tuneline.columns.readings import UserChoices
    from tuneline.params import Params


def command(  # noqa: PLR0917 - typer calls it by name
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="One file, or train.csv, validation.csv and test.csv, or their folder"
        ),
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
    decimal: Annotated[
        Literal[".", ","] | None,
        typer.Option(help="Before the decimals of a number; the other mark groups thousands"),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Keep rows with the same value in one split, such as a customer's"
        ),
    ] = None,
    no_by: Annotated[
        bool, typer.Option("--no-by", help="Divide rows by their texts, also where a column has alike rows")
    ] = False,
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
        str | None, typer.Option(metavar="NAME", help="Such as cp1252; default: detected")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; keep copies that differ")] = False,
    force: Annotated[bool, typer.Option("--force", help="Do not ask; replace copies that differ")] = False,
) -> None:
    """Set up this checkout to learn from your own files (CSV, TSV, JSONL, Parquet; plain or .gz)."""
    from tuneline.cli.init import display
    from tuneline.cli.init.checkpoints import choose_checkpoint, open_checkpoint
    from tuneline.cli.init.placement import paths_for_dvc
    from tuneline.cli.init.planning import is_current, plan_params
    from tuneline.cli.init.recipe import propose
    from tuneline.columns.readings import UserChoices
    from tuneline.params import params_file
    from tuneline.params.loading import load_params
    from tuneline.paths import PARAMS
    from tuneline.repository.git import require_own_repository

    if revision is not None and checkpoint is None:
        raise ParamsError("--revision is that of a checkpoint.", "Add --checkpoint NAME, or leave it out.")
    require_own_repository(Path())
    params = load_params()
    may_ask = sys.stdin.isatty() and not (yes or force)
    opened = open_checkpoint(checkpoint, revision) if checkpoint is not None else None

    # data
    words = [*map(str, files), *(["--checkpoint", checkpoint] if checkpoint is not None else [])]
    choices = UserChoices(
        command=f"tuneline init {shlex.join(words)}",
        text=tuple(text or ()),
        label=tuple(label or ()),
        task=task,
        separator=separator and separator.replace("\\n", "\n").replace("\\t", "\t"),
        decimal=decimal,
        header=header,
        encoding=encoding,
        by=by,
        by_time=by_time,
        no_by=no_by,
        name=name,
    )
    plan = ask_and_plan(files, choices, params, may_ask=may_ask)
    display.show_plan(plan, params)

    # model and training
    if opened is None and may_ask and not is_current(plan, params):
        opened = choose_checkpoint(plan, params.model.checkpoint, params.model.revision)
    values, reasons = propose(plan, params, opened)
    display.show_lines(["\nModel and training", *(f"  {reason}" for reason in reasons)])

    # what will change
    required = plan_params(plan, params) | values
    content = params_file.changed(PARAMS, required)
    changes = params_file.differing(PARAMS, required)
    display.show_changes(changes)
    to_add = paths_for_dvc(plan.placement, content)
    if to_add:
        names = ", ".join(map(str, to_add))
        display.show_lines(
            [f"\nDVC keeps {names} (dvc add), so that experiments and other machines have it."]
        )

    # files
    if changes or plan.placement.copies or to_add:
        confirm([str(path) for path in plan.placement.replaced], yes, force)
        write_plan(plan, content)
    display.show_next_steps(plan, written=bool(changes))


def ask_and_plan(paths: list[Path], choices: "UserChoices", params: "Params", *, may_ask: bool) -> "Plan":
    """Return the plan.

    Where the first line can be a header or a row, or the columns can be read in several ways, ask for it, or
    stop with the command for each.
    """
    from tuneline.cli.console import Console
    from tuneline.cli.init.planning import make_plan
    from tuneline.cli.init.rows import read_files, sniff_files
    from tuneline.columns.readings import OpenQuestionError
    from tuneline.sniffing.files import UnclearHeaderError

    sniffed = sniff_files(paths, choices.encoding)
    header = choices.header
    try:
        with Console().status("Reading ..."):
            files = read_files(sniffed, header, params.data)
    except UnclearHeaderError as unclear:
        if not may_ask:
            raise
        say(unclear.problem)
        header = typer.confirm("Does it name the columns?", default=True)
        files = read_files(sniffed, header, params.data)

    while True:
        try:
            with Console().status("Reading ..."):
                return make_plan(files, choices, params)
        except OpenQuestionError as question:
            if not may_ask:
                raise
            say(f"{question.question}:")
            for number, answer in enumerate(question.answers, start=1):
                say(f"  {number}: {answer.trains} ({answer.options})")
            number = 0
            while not 1 <= number <= len(question.answers):
                number = typer.prompt("Which one?", type=int)
            choices = choices.with_answer(question.answers[number - 1])


def write_plan(plan: "Plan", content: str) -> None:
    """Write the copies of the files, ``params.yaml`` and a first sweep; add the files to DVC."""
    from tuneline.cli.init.placement import add_to_dvc, paths_for_dvc
    from tuneline.cli.init.recipe import write_sweep
    from tuneline.params import params_file
    from tuneline.params.loading import load_params
    from tuneline.paths import PARAMS

    # The files first: after an interruption in between, params.yaml still names files that exist.
    plan.placement.write()
    params_file.write(PARAMS, content)
    add_to_dvc(paths_for_dvc(plan.placement, content))
    sweep = write_sweep(plan, load_params())
    if sweep:
        say(f"init: wrote {sweep}: nine variants of this training, compared by `tuneline sweep {sweep}`")


def confirm(replaced: list[str], yes: bool, force: bool) -> None:
    """Ask before anything is written; without an answer, nothing is.

    ``yes`` does not answer whether copies that differ are replaced.
    """
    if force or (yes and not replaced):
        return
    question = "Write this?"
    if replaced:
        question = f"Replace {' and '.join(replaced)}, whose content differs, and write this?"
    if yes or not sys.stdin.isatty():
        option = "--force" if replaced else "--yes"
        raise StageError(
            f"nothing was written: cannot ask without a terminal ({question})",
            f"Add {option} to write without asking.",
        )
    if not typer.confirm(visible(question), default=not replaced):
        raise StageError("nothing was written.")
