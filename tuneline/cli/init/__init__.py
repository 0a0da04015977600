"""``tuneline init``: propose columns, splits and training for the user's files, ask, and write parameters."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tuneline.runtime.errors import ParamsError, StageError
from tuneline.runtime.terminal import say, visible

if TYPE_CHECKING:
    from tuneline.cli.init.planning import Plan, UserChoices
    from tuneline.cli.init.recipe import Checkpoint
    from tuneline.columns.doubts import ColumnDoubt, NamedColumns
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
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="COLUMN", help="Text column; twice for a pair of texts"),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label", metavar="COLUMN", help="Label column; several, with 0 and 1, are a label each"
        ),
    ] = None,
    task: Annotated[
        Literal["classification", "regression", "multilabel"] | None,
        typer.Option("--task", help="Default: by the labels"),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option("--separator", metavar="TEXT", help="Between the labels of a row, such as ';'"),
    ] = None,
    decimal: Annotated[
        Literal[".", ","] | None,
        typer.Option("--decimal", help="Before the decimals of a number; the other mark groups thousands"),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by", metavar="COLUMN", help="Keep rows with the same value in one split, such as a customer's"
        ),
    ] = None,
    no_by: Annotated[
        bool,
        typer.Option("--no-by", help="Divide rows by their texts, also where a column has alike rows"),
    ] = False,
    by_time: Annotated[
        str | None,
        typer.Option(
            "--by-time", metavar="COLUMN", help="Train on the earliest rows and test on the latest ones"
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
    from tuneline.cli.init import recipe
    from tuneline.cli.init.display import show_changes, show_next_steps, show_plan
    from tuneline.cli.init.parameters import is_current, plan_params
    from tuneline.cli.init.planning import UserChoices
    from tuneline.cli.init.versioning import is_followed_by_git, show_versioned
    from tuneline.params import params_file
    from tuneline.params.loading import load_params
    from tuneline.paths import PARAMS
    from tuneline.repository.git import require_own_repository

    if revision is not None and checkpoint is None:
        raise ParamsError(
            "--revision is that of a checkpoint, and there is no --checkpoint.",
            "Add --checkpoint NAME, or leave it out.",
        )
    require_own_repository(Path())
    params = load_params()
    may_ask = sys.stdin.isatty() and not (yes or force)

    # data
    opened = open_named(checkpoint, revision)
    named_checkpoint = ["--checkpoint", checkpoint] if checkpoint is not None else []
    choices = UserChoices(
        command=f"tuneline init {shlex.join([*map(str, files), *named_checkpoint])}",
        text=tuple(text or ()),
        label=tuple(label or ()),
        task=task,
        separator=read_escapes(separator),
        decimal=decimal,
        header=header,
        encoding=encoding,
        by=by,
        by_time=by_time,
        no_by=no_by,
        name=name,
    )
    plan = make_plan(files, choices, params, may_ask=may_ask)
    show_plan(plan, params)

    # model and training
    current = is_current(plan, params)
    if opened is None and not current and may_ask:
        opened = recipe.choose_checkpoint(plan, params)
    required = plan_params(plan, params.train.metric, current)
    required |= recipe.propose(plan, params, opened)

    # what will change
    content = params_file.changed(PARAMS, required)
    changes = params_file.differing(PARAMS, required)
    show_changes(changes)
    adds = show_versioned(plan, content)

    # files
    if changes or plan.placement.copies or adds:
        confirm([str(path) for path in plan.placement.replaced], yes, force)
        write_plan(plan, content)
        if may_ask and not is_followed_by_git(plan):
            offer_hook()
    show_next_steps(plan, written=bool(changes))


def read_escapes(separator: str | None) -> str | None:
    """Return a separator in which a newline and a tab can be written as in a string."""
    if separator is None:
        return None
    return separator.replace("\\n", "\n").replace("\\t", "\t")


def open_named(checkpoint: str | None, revision: str | None) -> "Checkpoint | None":
    """Open the checkpoint that the user named, if any."""
    from tuneline.cli.console import Console
    from tuneline.cli.init.recipe import open_checkpoint

    if checkpoint is None:
        return None
    with Console().status("Reading ..."):
        return open_checkpoint(checkpoint, revision)


def make_plan(paths: list[Path], choices: "UserChoices", params: "Params", *, may_ask: bool) -> "Plan":
    """Return the plan.

    Where the first line can be a header or a row, or the columns can be read in several ways, ask for it, or
    stop with the command for each.
    """
    from tuneline.cli.console import Console
    from tuneline.cli.init.planning import OpenQuestionError, plan, read_files, sniff_files
    from tuneline.sniffing.files import UnclearHeaderError

    # files, each of which is read once
    with Console().status("Reading ..."):
        sniffed = sniff_files(paths, choices.encoding, params.data)
    try:
        with Console().status("Reading ..."):
            files = read_files(sniffed, choices.header, params.data)
    except UnclearHeaderError as unclear:
        if not may_ask:
            raise
        say(unclear.problem)
        header = typer.confirm("Does it name the columns?", default=True)
        with Console().status("Reading ..."):
            files = read_files(sniffed, header, params.data)

    # plan
    while True:
        try:
            with Console().status("Reading ..."):
                return plan(files, choices, params)
        except OpenQuestionError as question:
            if not may_ask:
                raise
            choices = choices.answered(ask_which(question.doubt))


def ask_which(doubt: "ColumnDoubt") -> "NamedColumns":
    """Ask which of several readings of the columns is right."""
    say(f"{doubt.problem}:")
    for number, answer in enumerate(doubt.alternatives, start=1):
        say(f"  {number}: {answer.trains} ({answer.options})")
    number = 0
    while not 1 <= number <= len(doubt.alternatives):
        number = typer.prompt("Which one?", type=int)
    return doubt.alternatives[number - 1].choice


def write_plan(plan: "Plan", content: str) -> None:
    """Write the copies of the files, ``params.yaml`` and a first sweep; add the files to DVC."""
    from tuneline.cli.init.recipe import write_sweep
    from tuneline.cli.init.versioning import add_to_dvc
    from tuneline.params import params_file
    from tuneline.params.loading import load_params
    from tuneline.paths import PARAMS

    # The files first: after an interruption in between, params.yaml still names files that exist.
    plan.placement.write()
    params_file.write(PARAMS, content)
    add_to_dvc(plan, content)
    sweep = write_sweep(plan, load_params())
    if sweep:
        say(f"init: wrote {sweep}: nine variants of this training, compared by `tuneline sweep {sweep}`")


def offer_hook() -> None:
    """Ask whether git shall bring the data of ``.dvc`` files, too: by itself it brings only these."""
    from tuneline.repository import git_hook

    question = "Let git pull and git switch bring the data of .dvc files, too (a hook in .git/hooks)?"
    if not typer.confirm(question, default=True):
        return
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

    if replaced:
        question = f"Replace {' and '.join(replaced)}, whose content differs, and write this?"
    else:
        question = "Write this?"
    if not sys.stdin.isatty():
        option = "--force" if replaced else "--yes"
        raise StageError(
            f"nothing was written: cannot ask without a terminal ({question})",
            f"Add {option} to write without asking.",
        )
    if not typer.confirm(visible(question), default=not replaced):
        raise StageError("nothing was written.")
