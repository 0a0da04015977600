"""Puts the model that was in production before back there: ``python -m flows.promotion.rollback``.

Only a tag is made: ``gto history onnx`` shows it, and whoever asks for the model in production gets the old one from then on.
"""

import argparse
import sys

from flows.promotion.registry import Registry, RegistryError, Version
from flows.runs.locks import locked
from flows.runs.repository import GitError, Repository
from flows.settings import load_settings


def main() -> None:
    """Reads the command line, assigns, prints what was done."""
    parser = argparse.ArgumentParser(prog="python -m flows.promotion.rollback", description=__doc__)
    parser.add_argument("--to", metavar="VERSION", help="a registered version (default: the one that was in production before)")
    parser.add_argument("--push", action="store_true", help="send the tag to origin")
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
        sys.exit(f"rollback: {error}")
    print(f"{policy.artifact} in {policy.stage}: {now.name} ({now.commit[:12]}); before: {before.name} ({before.commit[:12]})")


def rollback(registry: Registry, stage: str, to: str | None, reason: str, *, push: bool = False) -> tuple[Version, Version]:
    """Puts an earlier version into a stage.

    Args:
        registry: Of the artifact.
        stage: Of the registry.
        to: A version; ``None`` for the one that was there before the present one.
        reason: Message of the tag.
        push: Whether the tag goes to ``origin``.

    Returns:
        The version that was there, and the one that is there now.

    Raises:
        RegistryError: There is none to go back to.
    """
    state = registry.repository.state
    state.mkdir(parents=True, exist_ok=True)
    with locked(state / "promotion.lock", wait=60):
        present = registry.in_stage(stage)
        if present is None:
            raise RegistryError(f"No version of {registry.artifact} is in {stage}.")
        wanted = registry.version(to) if to else registry.before(present, stage)
        known = registry.tags()
        registry.assign(wanted, stage, reason)
        if push:
            registry.repository.git("push", "--quiet", "origin", f"refs/tags/{registry.artifact}@{wanted.name}")  # it may not know it
            registry.push(sorted(registry.tags() - known))
    return present, wanted


if __name__ == "__main__":
    main()
