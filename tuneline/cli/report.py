"""``tuneline report``: a page with the metrics of the model, their intervals, its errors and its provenance; and a model card."""

from pathlib import Path
from typing import Annotated

import typer

from tuneline.core.atomic_files import write_json
from tuneline.core.paths import PARAMS, REPORTS
from tuneline.core.terminal import say

WRITTEN = REPORTS / "report.json"
"""The out of the stage ``report``, always the same: the page itself has facts of git and of this machine, which dvc.lock must not have."""

Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="REF",
        help="Commit or experiment to compare with. Default: the newest commit with other metrics",
    ),
]
Measured = Annotated[
    bool,
    typer.Option("--latency/--no-latency", help="Measure the latency of the exported models on this machine"),
]


def command(against: Against = None, latency: Measured = True) -> None:
    """Write reports/index.html, a page about the quality and provenance of the model, and reports/model_card.md."""
    from tuneline.core.errors import StageError
    from tuneline.params.loading import load_params
    from tuneline.project.dvc import read_lock
    from tuneline.project.experiments import resolve_revision
    from tuneline.project.params_file import write
    from tuneline.project.repo import metrics_at
    from tuneline.results import page

    root = Path()
    if not (root / "dvc.yaml").exists():
        raise StageError(f"{root.resolve()} has no dvc.yaml.", "Run this in the root of the project.")
    named, against = against, against and resolve_revision(root, against)
    if named is not None and not against:
        raise StageError(
            f"--against {named}: git knows no such commit or experiment.",
            "Run git fetch, or name another one.",
        )
    if against and not metrics_at(root, against):
        say(
            f"report: {named} was scored on validation only, so the page has no comparison. `tuneline show"
            f" --against {named}` has one."
        )
    split = str(read_lock(root).params().get("evaluate.split", "test"))
    report = page.read_report(
        root, against, page.measure_latencies(root, split) if latency else page.read_latency(root)
    )
    for path, text in ((page.PAGE, page.render_report(report)), (page.CARD, page.render_card(report))):
        write(root / path, text)
    write_json(root / WRITTEN, {"page": str(page.PAGE), "card": str(page.CARD)})
    say(f"report: {page.PAGE}, {page.CARD}")
    for finding in report.findings:
        say(str(finding))
    if report.outdated:
        say(f"! {report.outdated}")
    if PARAMS.exists():
        load_params()  # last: the page is about the run, whose parameters are in dvc.lock
