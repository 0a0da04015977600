"""``tuneline data history``: what changed from one version of the data to the next, as a page with plots."""

from pathlib import Path
from typing import Annotated

import typer

from tuneline.terminal import progress, say

PAGE = Path("reports/data-history.html")
FETCH = "dvc fetch --all-commits reports/checks"

Last = Annotated[int, typer.Option(min=1, help="Number of versions to show, the newest first")]
Output = Annotated[Path, typer.Option("--output", "-o", help="HTML file to write")]


def command(last: Last = 20, output: Output = PAGE) -> None:
    """Write a page about the versions of the data: rows, classes, lengths, words, drift and failed checks of each.

    A version is in a commit of the current branch, or in one that the model registry names. DVC's cache has their profiles.
    """
    from tuneline.cli.data.history.changes import changes_between
    from tuneline.cli.data.history.page import render
    from tuneline.cli.data.history.versions import read_versions
    from tuneline.errors import StageError
    from tuneline.files import replace_file
    from tuneline.repo import git

    root = Path()
    if not (root / "dvc.yaml").exists():
        raise StageError(f"{root.resolve()} has no dvc.yaml.", "Run this in the root of the project.")
    if not git(root, "rev-parse", "--git-dir"):
        raise StageError(f"{root.resolve()} is not a git repository.", "Versions of the data are commits: run git init.")
    with progress("data history: versions in git and in DVC's cache"):
        versions = read_versions(root, last + 1)
    if not versions:
        raise StageError("No commit has a version of the data.", "Run `dvc repro`, and commit dvc.lock and metrics.")
    shown = versions[:last]
    output.parent.mkdir(parents=True, exist_ok=True)
    with progress("data history: differences"), replace_file(output) as partial:
        changes = [changes_between(version, before) for version, before in zip(shown, [*versions[1:], None], strict=False)]
        partial.write_text(render(changes, more=len(versions) > last), encoding="utf-8")
    missing = sum(version.profile is None for version in shown)
    if missing:
        say(f"The profile of {missing} of {len(shown)} versions is not in DVC's cache: `{FETCH}` gets what the remote has.", error=True)
    say(f"{len(shown)} version{'s' * (len(shown) != 1)} of the data: {output}")
