"""``tuneline init``: looks at a person's files, shows what it takes them for, asks, and writes ``params.yaml`` and ``data/source/``."""

import csv
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tuneline.errors import DataError, StageError

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="One file, or one per split: train.csv, validation.csv, test.csv")]
Text = Annotated[list[str] | None, typer.Option("--text", metavar="COLUMN", help="Text column; twice for a pair of texts")]
Label = Annotated[str | None, typer.Option("--label", metavar="COLUMN", help="Label column")]
TaskOption = Annotated[Literal["classification", "regression"] | None, typer.Option("--task", help="What is learned")]
Name = Annotated[str | None, typer.Option("--name", help="Folder under data/source/; the file's name unless given")]
Header = Annotated[bool | None, typer.Option("--header/--no-header", help="Whether the first line names the columns")]
Force = Annotated[bool, typer.Option("--force", help="Ask nothing; replace what is there")]


def command(  # noqa: PLR0917 - typer calls it by name
    files: Files,
    text: Text = None,
    label: Label = None,
    task: TaskOption = None,
    name: Name = None,
    header: Header = None,
    force: Force = False,
) -> None:
    """Make this checkout learn from your own files (CSV, TSV, JSONL, Parquet; plain or .gz)."""
    from tuneline.cli.init import planning, settings
    from tuneline.cli.init.showing import show_outcome, show_plan
    from tuneline.cli.init.wanted import wanted_params
    from tuneline.params.loading import load_params
    from tuneline.paths import PARAMS

    params = load_params()
    folder = planning.source_folder(name or planning.folder_name(files))
    asked = planning.Asked(tuple(text or ()), label, task, header, params.seed)
    try:
        plan = planning.plan(files, asked)
    except (csv.Error, UnicodeError) as error:
        raise DataError(f"{files[0]} is no text that can be read: {error}", "Save it as UTF-8.") from None
    wanted = wanted_params(plan, folder.name, params.train.metric)
    content = settings.changed(PARAMS, wanted)
    show_plan(plan, folder, settings.differing(PARAMS, wanted), params)
    agree(folder, force)
    write(plan, folder, content)
    show_outcome(folder)


def agree(folder: Path, force: bool) -> None:
    """Asks before anything is written.

    Raises:
        StageError: There is nobody to ask, or the answer is no.
    """
    if force:
        return
    question = f"Replace {folder}, which is there already, and change params.yaml?" if folder.exists() else "Write this?"
    if not sys.stdin.isatty():
        raise StageError(f"nothing was written: there is nobody to ask ({question})", "Say --force to write without asking.")
    if not typer.confirm(question, default=not folder.exists()):
        raise StageError("nothing was written.")


def write(plan: Any, folder: Path, content: str) -> None:
    """Writes the files, then the parameters: a run that breaks in between leaves parameters that still work."""
    from tuneline.cli.init import settings
    from tuneline.files import replace_directory
    from tuneline.paths import PARAMS

    with replace_directory(folder) as partial:
        plan.write(partial)
    settings.write(PARAMS, content)
