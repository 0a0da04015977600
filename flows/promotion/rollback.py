"""Put an earlier model back into production: ``python -m flows.promotion.rollback``.

Only a git tag is created, which ``gto history onnx`` shows. From then on the model in production is the earlier one.
"""

import argparse
import sys

from flows.promotion.publication import LOCK_WAIT, push_versions
from flows.promotion.registry import ConflictError, Registry, RegistryError
from flows.runs.pipeline import Pipeline
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import BusyError, GitError, Repository
from flows.settings import load_settings
from tuneline.registry import Version
from tuneline.terminal import say, visible


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m flows.promotion.rollback", description=__doc__)
    parser.add_argument("--to", metavar="VERSION", help="a registered version (default: the one that was in production before)")
    parser.add_argument("--push", action="store_true", help="push the tag to origin")
    parser.add_argument("--reason", default="Rolled back by hand.", help="message of the tag")
    options = parser.parse_args()
    repository = Repository.here()
    policy = load_settings(repository.root).promotion
    registry = Registry(repository, policy.artifact)
    try:
        before, now = rollback(registry, policy.stage, options.to, options.reason, push=options.push)
    except (BusyError, ConflictError, GitError, ProgramError, RegistryError) as error:
        sys.exit(visible(f"rollback: {error}"))
    say(f"{policy.artifact} in {policy.stage}: {now.name} ({now.commit[:12]}); before: {before.name} ({before.commit[:12]})")


def rollback(registry: Registry, stage: str, to: str | None, reason: str, *, push: bool = False) -> tuple[Version, Version]:
    """Assign an earlier version to a stage.

    Args:
        registry: Registry of the artifact.
        stage: Stage of the registry.
        to: Name of a version; ``None`` for the one that was in the stage before the present one.
        reason: Message of the tag.
        push: Push the tag to ``origin``.

    Returns:
        The version that was in the stage, and the one that is in it now.

    Raises:
        RegistryError: There is no such version.
        ConflictError: Another machine changed the registry in the meantime; nothing was changed.
        GitError: ``origin`` refused, or cannot be reached; nothing was changed.
        ProgramError: A version that ``origin`` does not have cannot be pushed to the DVC remote; nothing was changed.
    """
    with registry.locked(LOCK_WAIT):
        for message in registry.refresh(push=push):
            say(message, error=True)
        present = registry.in_stage(stage)
        if present is None:
            raise RegistryError(f"No version of {registry.artifact} is in {stage}.")
        target = registry.version(to) if to else registry.before(present, stage)
        if push and (versions := registry.unpublished()):
            with Programs(registry.repository.root, "rollback", preload=False) as programs:
                push_versions(Pipeline(programs, lambda line: say(line, error=True)), versions)
        registry.promote(target.commit, stage, reason, push=push)
    return present, target


if __name__ == "__main__":
    main()
