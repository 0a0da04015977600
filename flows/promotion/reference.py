"""The profile of production's data, written where stage ``validate`` compares new data with it.

The registry says which model is in production, so a promotion or rollback takes effect in the next run. A run writes the profile
before its first stage and commits it with its result: the stage remains a function of files that the commit names.
``python -m flows.promotion.reference`` does the same for a person's working tree.
"""

import argparse
import sys
from pathlib import Path

from flows.promotion.registry import Registry, RegistryError, Version
from flows.runs.pipeline import Pipeline, PipelineFiles
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import Repository
from flows.settings import load_settings
from tuneline.paths import CHECKS, REFERENCE_PROFILE

PROFILE = CHECKS / "profile.json"
"""The profile that ``validate`` writes."""


def main() -> None:
    """Fetch the profile into the repository and print what to do next."""
    argparse.ArgumentParser(prog="python -m flows.promotion.reference", description=__doc__).parse_args()
    repository = Repository.here()
    policy = load_settings(repository.root).promotion
    try:
        with Programs(repository.root, "reference", preload=False) as programs:
            version = fetch_reference(Pipeline(programs, lambda _line: None), Registry(repository, policy.artifact), policy.stage)
    except (ProgramError, RegistryError) as error:
        sys.exit(f"reference: {error}")
    if version is None:
        sys.exit(f"reference: no model with a profile is in {policy.stage}, or there is no folder {REFERENCE_PROFILE.parent}.")
    print(f"{REFERENCE_PROFILE} is that of {policy.artifact} {version.name} ({version.commit[:12]}). Next: dvc repro, and commit both.")


def fetch_reference(pipeline: Pipeline, registry: Registry, stage: str) -> Version | None:
    """Write ``data/reference/profile.json``, if the checkout has that folder.

    Args:
        pipeline: The pipeline in the checkout.
        registry: Registry of the artifact.
        stage: Stage of the registry.

    Returns:
        The version whose profile was written; ``None`` if no model is in the stage yet, or its commit has no profile.

    Raises:
        ProgramError: The profile is neither in the cache nor in the DVC remote.
    """
    target = pipeline.programs.cwd / REFERENCE_PROFILE
    version = registry.in_stage(stage) if target.parent.is_dir() else None
    return version if version and fetch_profile(pipeline, registry.repository, version, target) else None


def fetch_profile(pipeline: Pipeline, repository: Repository, version: Version, target: Path) -> bool:
    """Fetch the profile of a version's data; return False if the version has none.

    Raises:
        ProgramError: The version has a profile, but it is neither in the cache nor in the DVC remote.
    """
    if PipelineFiles.of_commit(repository, version.commit).lock.out(str(PROFILE.parent)) is None:
        pipeline.on_line(f"{version.name} ({version.commit[:12]}) has no {PROFILE}.")
        return False
    pipeline.get(repository, str(PROFILE), version.commit, target, f"Fetching {PROFILE} of {version.name}")
    return True


if __name__ == "__main__":
    main()
