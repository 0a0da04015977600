"""Commands about production: ``python -m flows.promotion`` with ``rollback``, ``hold`` or ``release``."""

# ruff: noqa: E402
from tuneline.core.runtime.terminal import explain_exceptions

explain_exceptions()  # first: the imports below take a second

import argparse
import sys

from tuneline.core.repository.git import GitError
from tuneline.core.repository.promoted_models import ARTIFACT, PRODUCTION_STAGE, ModelRepository
from tuneline.core.repository.registry import Version
from tuneline.core.runtime.errors import StageError
from tuneline.core.runtime.files import BusyError
from tuneline.core.runtime.terminal import say, visible
from tuneline.core.settings import load_settings
from tuneline.operations.promotion.registry import ConflictError, Registry, RegistryError
from tuneline.operations.runs.repository import Repository

LOCK_WAIT = 60.0
"""Seconds to wait for a promotion that is in progress."""


def main() -> None:
    """Run the command line."""
    options = parse_options()
    repository = Repository.here()
    registry = Registry(repository)
    try:
        push = options.push
        if push is None:
            push = load_settings(repository.root).training.push and repository.has_remote()
        with registry.locked(LOCK_WAIT):
            if push:
                registry.fetch()
            if options.command == "rollback":
                before, now = rollback(registry, options.to, options.reason, push=push, hold=options.hold)
                say(f"{now.name} ({now.commit[:12]}) is in production; before: {before.name}")
            elif options.command == "hold":
                registry.hold(options.reason, push=push)
            else:
                registry.release(options.reason, push=push)
    except (BusyError, ConflictError, GitError, RegistryError, StageError) as error:
        sys.exit(visible(f"{options.command}: {error}"))

    hold = registry.on_hold()
    if hold:
        say(f"{hold} End it: python -m flows.promotion release")
    else:
        say("Promotions are not on hold.")


def parse_options() -> argparse.Namespace:
    """Return the command and its options."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.promotion", description="Commands about production."
    )
    commands = parser.add_subparsers(required=True, dest="command")

    back = commands.add_parser("rollback", help="put an earlier model back into production")
    back.add_argument(
        "--to",
        metavar="VERSION",
        help="a registered version (default: the one that was in production before)",
    )
    back.add_argument("--reason", default="Rolled back by hand.", help="message of the tag")
    back.add_argument(
        "--hold", action=argparse.BooleanOptionalAction, default=True, help="stop promotions until `release`"
    )

    hold = commands.add_parser("hold", help="stop promotions: results are judged, and not promoted")
    hold.add_argument("--reason", required=True, help="shown wherever a promotion is stopped")

    release = commands.add_parser("release", help="end the hold")
    release.add_argument("--reason", default="Released by hand.", help="message of the tag")

    for command in (back, hold, release):
        push_help = "push the tag to origin, for other machines (default: training.push in conf/flows.yaml)"
        command.add_argument("--push", action=argparse.BooleanOptionalAction, help=push_help)
    return parser.parse_args()


def rollback(
    registry: Registry, to: str | None, reason: str, *, push: bool = False, hold: bool = False
) -> tuple[Version, Version]:
    """Put an earlier model back into production: a version by name, else the one before the present one.

    Under the lock of the registry. Only git tags are created, which ``gto history`` shows. From then on the
    model in production is the earlier one; with ``hold``, nothing is promoted until that is released. A
    version that is in production already stays there, without a tag.

    Returns:
        The version that was in production, and the one that is in it now.

    Raises:
        RegistryError: There is no such version; nothing was changed.
        StageError: Its files are neither here nor in the DVC remote, or damaged; nothing was changed.
        ConflictError: Another machine changed the registry in the meantime; nothing was changed.
        GitError: ``origin`` refused, or cannot be reached; nothing was changed.
    """
    tags = registry.tags()
    present = tags.in_stage(PRODUCTION_STAGE)
    if present is None:
        raise RegistryError(f"No version of {ARTIFACT} is in {PRODUCTION_STAGE}.")
    if to:
        versions = {version.name: version for version in tags.versions}
        if to not in versions:
            raise RegistryError(f"There is no version {to!r}; there are {', '.join(versions) or 'none'}.")
        target = versions[to]
    else:
        order = tags.succession(PRODUCTION_STAGE)
        if len(order) < 2 or order[-1] != present:
            raise RegistryError(f"Nothing was in production before {present.name}. Name one: --to VERSION.")
        target = order[-2]
    if target == present:
        return present, present

    # Its files are fetched and compared with their hashes.
    with ModelRepository(str(registry.repository.root)).files(target):
        refs = []
        if push and tags.version_of(target.commit):
            # It may have been promoted without a push.
            refs.append(f"refs/tags/{ARTIFACT}@{target.name}")
        registry.promote(target.commit, reason, refs=refs, push=push, hold=hold)
    return present, target


if __name__ == "__main__":
    main()
