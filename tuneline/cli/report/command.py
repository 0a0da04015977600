"""``tuneline report``."""

from pathlib import Path
from typing import Annotated

import typer

Against = Annotated[str | None, typer.Option("--against", metavar="REF", help="Commit to compare with; else the newest with other metrics")]
Measured = Annotated[bool, typer.Option("--latency/--no-latency", help="Whether to measure the exported models on this machine (seconds)")]


def command(against: Against = None, latency: Measured = True) -> None:
    """Write reports/index.html, one page that says how good the model is, and reports/model_card.md."""
    from tuneline.cli.report import card, page
    from tuneline.cli.report.latency import last_measured, measure
    from tuneline.errors import StageError
    from tuneline.repo.history import git, read_lock

    root = Path()
    if not (root / "dvc.yaml").exists():
        raise StageError(f"{root.resolve()} has no dvc.yaml.", "Run this in the root of the project.")
    if against is not None and not git(root, "rev-parse", "--verify", "--quiet", f"{against}^{{commit}}"):
        raise StageError(f"--against {against}: git knows no such commit.", "git fetch, or another name")
    split = str(read_lock(root).params().get("evaluate.split", "test"))
    report = page.gather(root, against, measure(root, split) if latency else last_measured(root))
    print(f"report: {page.write(root, report)}, {card.write(root, report)}")
