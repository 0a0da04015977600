"""Data and weights in DVC: what ``dvc add`` is run for, and whether git brings it to other machines."""

from pathlib import Path

from rich.text import Text
from ruamel.yaml import YAML

from tuneline.cli.console import Console
from tuneline.cli.init.planning import Plan
from tuneline.repository import git_hook
from tuneline.repository.git import file_of_dvc, missing, named
from tuneline.repository.programs import run_dvc
from tuneline.runtime.terminal import say


def show_versioned(plan: Plan, content: str) -> bool:
    """Print which files and folders ``dvc add`` will be run for; return False if there are none.

    ``content`` is the new text of ``params.yaml``.
    """
    paths = _to_add(plan, content)
    if not paths:
        return False
    text = (
        f"\nDVC keeps {', '.join(map(str, paths))} (dvc add), so that experiments and other machines have it."
    )
    Console().print(Text(text), soft_wrap=True)
    return True


def add_to_dvc(plan: Plan, content: str) -> None:
    """Run ``dvc add`` for the data and weights that the new ``params.yaml`` names, or say how to do it."""
    paths = list(map(str, _to_add(plan, content)))
    if not paths:
        return
    with Console().status("dvc add ..."):
        reason = run_dvc(Path(), "add", *paths)
    if reason:
        say(
            "! dvc add failed, so experiments and other machines lack the data:"
            f" {reason}\n  dvc add {' '.join(paths)}",
            error=True,
        )


def _to_add(plan: Plan, content: str) -> list[Path]:
    """Return the files and folders to add, none in a project without DVC.

    These are the named ones that git and DVC lack or that do not exist yet, and the ones in DVC that a copy
    changes.
    """
    if not Path(".dvc").is_dir():
        return []
    values = YAML(typ="safe", pure=True).load(content)
    paths = list(missing(Path(), values))
    for path in named(values):
        if not path.exists():
            paths.append(path)
    # Data that DVC has already changes by the copy.
    for target in plan.placement.copies:
        tracked = file_of_dvc(Path(), target)
        if tracked:
            paths.append(tracked)
    return list(dict.fromkeys(paths))


def is_followed_by_git(plan: Plan) -> bool:
    """Return False if DVC keeps the data, and this clone has no hook with which git brings it."""
    return file_of_dvc(Path(), plan.placement.file("train")) is None or git_hook.is_installed(Path())
