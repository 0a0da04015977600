"""``tuneline report``: write the page about the model and its card again.

The stage ``report`` writes both after every run. This command can also compare with a commit of your choice.
"""

from pathlib import Path
from typing import Annotated

import typer

from tuneline.paths import PARAMS
from tuneline.runtime.terminal import say

Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="REF",
        help="Commit or experiment to compare with. Default: the newest commit with other metrics",
    ),
]


def command(against: Against = None) -> None:
    """Write reports/index.html, a page about the model's quality and provenance, and the model card."""
    from tuneline.params.loading import load_params
    from tuneline.results.page import read_report, write_report
    from tuneline.runtime.errors import StageError

    root = Path()
    if not (root / "dvc.yaml").exists():
        raise StageError(f"{root.resolve()} has no dvc.yaml.", "Run this in the root of the project.")

    reference = None
    if against is not None:
        reference = reference_commit(root, against)

    write_report(root, read_report(root, reference))

    # Last, because the page is about the run, whose parameters are in dvc.lock: a params.yaml that is invalid
    # now is an error, and hinders no page.
    if PARAMS.exists():
        load_params()


def reference_commit(root: Path, against: str) -> str:
    """Return the commit that ``--against`` names; a ``StageError`` if git knows none of that name."""
    from tuneline.experiments.saved import resolve_revision
    from tuneline.repository.git import metrics_at
    from tuneline.runtime.errors import StageError

    commit = resolve_revision(root, against)
    if not commit:
        raise StageError(
            f"--against {against}: git knows no such commit or experiment.",
            "Run git fetch, or name another one.",
        )
    if not metrics_at(root, commit):
        say(
            f"report: {against} was scored on validation only, so the page has no comparison. `tuneline show"
            f" --against {against}` has one."
        )
    return commit
