"""``tuneline new`` and ``tuneline upgrade``: a project with the installed engine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tuneline.core.runtime.errors import StageError
from tuneline.core.runtime.terminal import say


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that does not exist yet.")],
) -> None:
    """Create a project: a git repository with the stages, flows and parameters, which are yours to change."""
    from tuneline.operations.project import create_project

    with explained():
        create_project(folder)
    say(f"{folder} has a project, with a first commit. README.md there says what is where. Next:")
    say(f"  cd {folder}")
    say("  make setup && source .venv/bin/activate    # the pinned packages; or stay in this environment")
    say("  tuneline init FILE.csv --checkpoint sentence-transformers/all-MiniLM-L6-v2")
    say("  dvc repro")


def upgrade() -> None:
    """Bring this project to the installed engine: its files by a git merge, new parameters, engine.yaml."""
    from tuneline.core.stage.code import installed_version
    from tuneline.operations.project import upgrade_project

    with explained():
        stages = upgrade_project(Path())
    if stages:
        say(f"This project has tuneline {installed_version()}. `dvc repro` runs again: {', '.join(stages)}.")
    else:
        say(f"This project has tuneline {installed_version()}. No stage runs other code than before.")


@contextmanager
def explained() -> Iterator[None]:
    """Let what git says end the command without a traceback."""
    from tuneline.core.repository.git import GitError

    try:
        yield
    except GitError as error:
        raise StageError(str(error)) from None
