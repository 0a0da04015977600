"""The data checks of the pipeline, run on a checkout with new rows before they are committed."""

import shutil
from pathlib import Path

from flows.promotion.production import fetch_profile, fetch_reference
from flows.promotion.registry import Registry
from flows.runs.checkout import Checkout
from flows.runs.pipeline import Pipeline, stage_task
from flows.runs.processes import ProgramError
from flows.runs.repository import Repository
from flows.settings import Settings
from tuneline.core.files import replace_directory
from tuneline.core.paths import CHECKS, REFERENCE_PROFILE
from tuneline.project.registry import Version
from tuneline.reports.checks import Checks

STAGES = ("base", "download", "tokenize", "validate")
"""The stages up to the data checks, in their order."""
REFUSED_BATCHES = "refused"
"""Folder in ``.dvc/tmp/flows/`` for batches that failed the checks."""


class RefusedDataError(Exception):
    """The data with the new rows failed its checks; the message names them."""


def check(pipeline: Pipeline, checkout: Checkout, registry: Registry, settings: Settings, stages: tuple[str, ...]) -> None:
    """Run the data checks, with production's data as the reference; before a promotion, with those of the checked-out commit.

    Raises:
        RefusedDataError: A check of severity ``error`` failed.
        ProgramError: A stage failed for another reason.
    """
    if fetch_reference(pipeline, registry, settings.promotion.stage) is None:
        _fetch_present(pipeline, checkout, registry)
    for stage in (stage for stage in STAGES if stage in stages):
        try:
            stage_task(stage, settings.policy(stage))(pipeline)
        except ProgramError:
            failed = failed_checks(checkout.path) if stage == "validate" else []
            if not failed:
                raise
            raise RefusedDataError("\n".join(failed)) from None


def _fetch_present(pipeline: Pipeline, checkout: Checkout, registry: Registry) -> None:
    target = checkout.path / REFERENCE_PROFILE
    if not target.parent.is_dir():
        return
    try:
        fetch_profile(pipeline, registry.repository, Version(checkout.spec.ref, checkout.spec.commit), target)
    except ProgramError as error:
        pipeline.on_line(f"The profile of the present data cannot be had, so the new data is compared with nothing: {error.reason}")


def failed_checks(root: Path) -> list[str]:
    """Return the checks that stop the pipeline, with what they found."""
    checks = Checks.read_if_valid(root / CHECKS / "checks.json")
    stopping = [entry for entry in checks.checks if entry.stops] if checks else []
    return [f"{entry.check}, {entry.split}: {entry.found} (allowed: {entry.allowed})" for entry in stopping]


def set_aside(repository: Repository, checkout: Checkout, batches: list[Path]) -> Path:
    """Keep refused batches and the report of their checks under ``.dvc/tmp/flows/refused/``, and return the folder."""
    target = repository.state / REFUSED_BATCHES / checkout.name
    with replace_directory(target) as folder:
        for batch in batches:
            shutil.copy2(checkout.path / batch, folder / batch.name)
        if (checkout.path / CHECKS).is_dir():
            shutil.copytree(checkout.path / CHECKS, folder / "checks")
    return target
