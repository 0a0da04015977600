"""What the data of the model in production looked like, put where stage ``validate`` compares new data with it.

The registry says which model that is, so a promotion and a rollback hold for the next run by themselves. A run takes the
profile before its first stage and commits it with its result: the stage stays a function of files that the commit names.
``python -m flows.promotion.reference`` does the same for a person's working tree.
"""

import argparse
import sys
from pathlib import Path

from flows.promotion.registry import Registry, RegistryError, Version
from flows.runs.line import Line
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import Repository
from flows.runs.snapshot import Snapshot
from flows.settings import load_settings

PROFILE = Path("reports/checks/profile.json")
"""Where ``validate`` leaves it."""
REFERENCE = Path("data/reference/profile.json")
"""Where ``validate`` looks for it."""


def main() -> None:
    """Reads the command line, fetches, says what to do next."""
    argparse.ArgumentParser(prog="python -m flows.promotion.reference", description=__doc__).parse_args()
    repository = Repository.here()
    policy = load_settings(repository.root).promotion
    try:
        with Programs(repository.root, "reference", preload=False) as programs:
            version = take_reference(Line(programs, lambda _line: None), Registry(repository, policy.artifact), policy.stage)
    except (ProgramError, RegistryError) as error:
        sys.exit(f"reference: {error}")
    if version is None:
        sys.exit(f"reference: no model with a profile is in {policy.stage}, or the line has no folder {REFERENCE.parent}.")
    print(f"{REFERENCE} is that of {policy.artifact} {version.name} ({version.commit[:12]}). Next: dvc repro, and commit both.")


def take_reference(line: Line, registry: Registry, stage: str) -> Version | None:
    """Writes ``data/reference/profile.json``, where the line in the checkout has that folder.

    Args:
        line: The line in the checkout.
        registry: Of the artifact.
        stage: Of the registry.

    Returns:
        The version whose profile it is; ``None`` when nothing was written: no model is there yet, or its line made no profile.

    Raises:
        ProgramError: The profile is neither in the cache nor in the DVC remote.
    """
    target = line.programs.cwd / REFERENCE
    version = registry.in_stage(stage) if target.parent.is_dir() else None
    return version if version and fetch_profile(line, registry.repository, version, target) else None


def fetch_profile(line: Line, repository: Repository, version: Version, target: Path) -> bool:
    """Fetches the profile of a version's data, and says whether that version has one.

    Raises:
        ProgramError: It has, but neither the cache nor the DVC remote does.
    """
    if Snapshot.of_commit(repository, version.commit).md5(str(PROFILE.parent)) is None:
        line.on_line(f"{version.name} ({version.commit[:12]}) has no {PROFILE}.")
        return False
    what = f"Fetching {PROFILE} of {version.name}"
    line.dvc("get", str(repository.root), str(PROFILE), "--rev", version.commit, "--out", str(target), "--force", what=what)
    return True


if __name__ == "__main__":
    main()
