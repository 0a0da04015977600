"""``tuneline report``: a page with the metrics of the model, their intervals, its errors and its provenance; and a model card."""

from pathlib import Path
from typing import Annotated

import typer

from tuneline.terminal import say

Against = Annotated[
    str | None, typer.Option("--against", metavar="REF", help="Commit to compare with. Default: the newest commit with other metrics")
]
Measured = Annotated[bool, typer.Option("--latency/--no-latency", help="Measure the latency of the exported models on this machine")]


def command(against: Against = None, latency: Measured = True) -> None:
    """Write reports/index.html, a page about the quality and provenance of the model, and reports/model_card.md."""
    from tuneline.cli.report import card, page
    from tuneline.cli.report.exported_models import measure_latency, read_latency
    from tuneline.errors import StageError
    from tuneline.repo import git, read_lock

    root = Path()
    if not (root / "dvc.yaml").exists():
        raise StageError(f"{root.resolve()} has no dvc.yaml.", "Run this in the root of the project.")
    if against is not None and not git(root, "rev-parse", "--verify", "--quiet", f"{against}^{{commit}}"):
        raise StageError(f"--against {against}: git does not know this commit.", "Run git fetch, or name another commit.")
    split = str(read_lock(root).params().get("evaluate.split", "test"))
    report = page.read_report(root, against, measure_latency(root, split) if latency else read_latency(root))
    say(f"report: {page.write(root, report)}, {card.write(root, report)}")
