"""The command ``tuneline init``: reads the user's files, shows a plan, asks, and writes ``params.yaml`` and ``data/source/``."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tuneline.errors import StageError

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="One file, or one per split: train.csv, validation.csv, test.csv")]
Text = Annotated[list[str] | None, typer.Option("--text", metavar="COLUMN", help="Text column; twice for a pair of texts")]
Label = Annotated[str | None, typer.Option("--label", metavar="COLUMN", help="Label column")]
TaskOption = Annotated[Literal["classification", "regression"] | None, typer.Option("--task", help="Default: by the labels")]
Name = Annotated[str | None, typer.Option("--name", help="Folder under data/source/; default: the name of the file")]
Header = Annotated[bool | None, typer.Option("--header/--no-header", help="The first line names the columns or not; default: detected")]
Force = Annotated[bool, typer.Option("--force", help="Do not ask; replace an existing folder")]


def command(  # noqa: PLR0917 - typer calls it by name
    files: Files,
    text: Text = None,
    label: Label = None,
    task: TaskOption = None,
    name: Name = None,
    header: Header = None,
    force: Force = False,
) -> None:
    """Set up this checkout to learn from your own files (CSV, TSV, JSONL, Parquet; plain or .gz)."""
    from tuneline.cli.init import planning, preview, settings
    from tuneline.params.loading import load_params
    from tuneline.paths import PARAMS

    params = load_params()
    folder = planning.source_folder(name or planning.folder_name(files))
    plan = planning.plan(files, planning.UserChoices(tuple(text or ()), label, task, header, params.seed))
    required = settings.plan_params(plan, folder.name, params.train.metric)
    content = settings.changed(PARAMS, required)
    preview.show_plan(plan, folder, settings.differing(PARAMS, required), params)
    confirm(folder, force)
    write(plan, folder, content)
    preview.show_next_steps(folder)


def confirm(folder: Path, force: bool) -> None:
    """Ask before anything is written.

    Raises:
        StageError: Standard input is not a terminal, or the answer is no.
    """
    if force:
        return
    question = f"Replace {folder}, which already exists, and change params.yaml?" if folder.exists() else "Write this?"
    if not sys.stdin.isatty():
        raise StageError(f"nothing was written: cannot ask without a terminal ({question})", "Add --force to write without asking.")
    if not typer.confirm(question, default=not folder.exists()):
        raise StageError("nothing was written.")


def write(plan: Any, folder: Path, content: str) -> None:
    """Write the files, then the parameters, so that an interruption in between leaves valid parameters."""
    from tuneline.cli.init import settings
    from tuneline.files import replace_directory
    from tuneline.paths import PARAMS

    with replace_directory(folder) as partial:
        plan.write(partial)
    settings.write(PARAMS, content)
