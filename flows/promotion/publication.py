"""Publish what was promoted without a push: ``python -m flows.promotion.publication``.

The data of every version is pushed to the DVC remote, then the tags to ``origin``. A run with ``push: true`` and
``python -m flows.promotion.rollback --push`` do the same for versions that ``origin`` does not have.
"""

import argparse
import sys
from collections.abc import Sequence

from flows.promotion.registry import ConflictError, Registry
from flows.runs.pipeline import Pipeline
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import BusyError, GitError, Repository, dvc_config
from flows.runs.results import NoRemoteError, require_remote
from flows.settings import load_settings
from tuneline.registry import Version
from tuneline.terminal import say, visible

LOCK_WAIT = 60.0
"""Seconds to wait for a promotion that is in progress."""


def main() -> None:
    """Run the command line."""
    argparse.ArgumentParser(prog="python -m flows.promotion.publication", description=__doc__).parse_args()
    repository = Repository.here()
    registry = Registry(repository, load_settings(repository.root).promotion.artifact)
    if not repository.has_remote():
        sys.exit("publication: the repository has no git remote named origin. Add one: git remote add origin URL")
    try:
        require_remote(repository)
        with registry.locked(LOCK_WAIT), Programs(repository.root, "publication", preload=False) as programs:
            for message in registry.fetch():
                say(message)
            versions = registry.unpublished()
            push_versions(Pipeline(programs, say), registry.tags().versions)
            registry.publish([])
    except (BusyError, ConflictError, GitError, NoRemoteError, ProgramError) as error:
        sys.exit(visible(f"publication: {error}"))
    say(f"origin has every version and stage; new there: {', '.join(version.name for version in versions) or 'no version'}.")


def push_versions(pipeline: Pipeline, versions: Sequence[Version]) -> None:
    """Push the outs of versions to the DVC remote, if there is one. Outs that are lost are reported, and do not stop the others.

    Raises:
        ProgramError: The upload failed.
    """
    names = ", ".join(version.name for version in versions)
    if versions and not dvc_config(pipeline.programs.cwd).get("core", {}).get("remote"):
        pipeline.on_line(f"ERROR: DVC has no default remote: the data of {names} exist on this machine only.")
    elif versions:
        command = [sys.executable, "-P", "-m", "tuneline.dvc_remote", "push", *(version.commit for version in versions)]
        pipeline.programs.run(command, f"Pushing the data of {names} to the DVC remote", pipeline.on_line)


if __name__ == "__main__":
    main()
