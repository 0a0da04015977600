"""``tuneline report``: write the page about the model and its card again, with the facts of git by now."""

from pathlib import Path

from tuneline.core.paths import PARAMS


def command() -> None:
    """Write reports/index.html, a page about the model's quality and provenance, and the model card."""
    from tuneline.core.params.loading import load_params
    from tuneline.core.runtime.errors import StageError
    from tuneline.page.page import read_report, write_report

    root = Path()
    if not (root / "dvc.yaml").exists():
        raise StageError(f"{root.resolve()} has no dvc.yaml.", "Run this in the root of the project.")
    write_report(root, read_report(root))

    # Last, because the page is about the run, whose parameters are in dvc.lock: a params.yaml that is invalid
    # now is an error, and hinders no page.
    if PARAMS.exists():
        load_params()
