"""Put an earlier model back into production: ``python -m flows.promotion.rollback``.

Only a git tag is created, which ``gto history onnx`` shows. From then on the model in production is the earlier one.
"""

import argparse
import sys

from flows.promotion.registry import Registry, RegistryError, Version
from flows.runs.repository import GitError, Repository, locked
from flows.settings import load_settings
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
        if options.push:
            registry.fetch()
        before, now = rollback(registry, policy.stage, options.to, options.reason, push=options.push)
    except (RegistryError, GitError) as error:
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
    """
    state = registry.repository.state
    state.mkdir(parents=True, exist_ok=True)
    with locked(state / "promotion.lock", wait=60):
        present = registry.in_stage(stage)
        if present is None:
            raise RegistryError(f"No version of {registry.artifact} is in {stage}.")
        target = registry.version(to) if to else registry.before(present, stage)
        known = registry.tags()
        registry.assign(target, stage, reason)
        if push:
            registry.repository.git("push", "--quiet", "origin", f"refs/tags/{registry.artifact}@{target.name}")  # it may not have it
            registry.push(sorted(registry.tags() - known))
    return present, target


if __name__ == "__main__":
    main()
