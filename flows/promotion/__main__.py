"""Commands about production: ``python -m flows.promotion`` with the name of a command."""

# ruff: noqa: E402
from tuneline.runtime.terminal import explain_exceptions

explain_exceptions()  # first: the imports below take a second

import argparse
import contextlib
import sys
from collections.abc import Iterator

from flows.promotion.production import fetch_model, fetch_reference, push_versions
from flows.promotion.registry import ConflictError, Registry, RegistryError
from flows.runs.pipeline import Pipeline
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import Repository
from tuneline.paths import REFERENCE_PROFILE
from tuneline.repository.dvc import NoRemoteError, require_remote
from tuneline.repository.git import ArtifactError, GitError
from tuneline.repository.registry import Version, names_of
from tuneline.runtime.errors import DataError, ParamsError
from tuneline.runtime.locks import BusyError
from tuneline.runtime.terminal import say, visible
from tuneline.settings import load_settings

LOCK_WAIT = 60.0
"""Seconds to wait for a promotion that is in progress."""
ERRORS = (
    ArtifactError,
    BusyError,
    ConflictError,
    DataError,
    GitError,
    NoRemoteError,
    ParamsError,
    ProgramError,
    RegistryError,
)


def main() -> None:
    """Run the command line."""
    options = parse_options()
    repository = Repository.here()
    try:
        settings = load_settings(repository.root)
        stage = settings.promotion.stage
        registry = Registry(repository, settings.promotion.artifact)
        if options.command == "publish":
            publish_registry(registry)
        elif options.command == "reference":
            reference(registry, stage)
        else:
            push = options.push
            if push is None:
                push = settings.training.push and repository.has_remote()
            change(registry, stage, options, push=push)
    except ERRORS as error:
        sys.exit(visible(f"{options.command}: {error}"))


def parse_options() -> argparse.Namespace:
    """Return the command and its options."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.promotion",
        description="Commands about production: ``python -m flows.promotion rollback``, ``hold``,"
        " ``release``, ``publish`` and ``reference``.",
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

    commands.add_parser("publish", help="push the data and the tags of what was promoted without a push")
    commands.add_parser(
        "reference", help=f"write the profile of production's data to {REFERENCE_PROFILE}, for stage validate"
    )
    return parser.parse_args()


def change(registry: Registry, stage: str, options: argparse.Namespace, *, push: bool) -> None:
    """Roll back, hold or release, and print what is the case now."""
    if options.command == "rollback":
        before, now = rollback(registry, stage, options.to, options.reason, push=push, hold=options.hold)
        name = f"{registry.artifact} in {stage}: {now.name} ({now.commit[:12]})"
        if now == before:
            say(f"{name}, as before: nothing was changed.")
        else:
            say(f"{name}; before: {before.name} ({before.commit[:12]})")
    else:
        with changing(registry, push=push):
            if options.command == "hold":
                registry.hold(stage, options.reason, push=push)
            else:
                registry.release(stage, options.reason, push=push)

    hold = registry.tags().hold(stage)
    if hold:
        say(f"{hold} End it: python -m flows.promotion release")
    else:
        say(f"{registry.artifact}: promotions are not on hold.")


@contextlib.contextmanager
def changing(registry: Registry, *, push: bool) -> Iterator[None]:
    """Hold the lock under which the registry may change. With ``push``, it is the one of ``origin``."""
    with registry.locked(LOCK_WAIT):
        if push:
            registry.fetch()
        yield


def rollback(
    registry: Registry, stage: str, to: str | None, reason: str, *, push: bool = False, hold: bool = False
) -> tuple[Version, Version]:
    """Put an earlier model back into production: a version by name, else the one before the present one.

    Only git tags are created, which ``gto history`` shows. From then on the model in production is the
    earlier one; with ``hold``, nothing is promoted until that is released. A version that is in the stage
    already stays there, without a tag.

    Returns:
        The version that was in the stage, and the one that is in it now.

    Raises:
        RegistryError: There is no such version, or its files are neither here nor in the DVC remote, or
            damaged; nothing was changed.
        ConflictError: Another machine changed the registry in the meantime; nothing was changed.
        GitError: ``origin`` refused, or cannot be reached; nothing was changed.
        ProgramError: Its data cannot be pushed to the DVC remote; nothing was changed.
    """
    with changing(registry, push=push):
        present = registry.in_stage(stage)
        if present is None:
            raise RegistryError(f"No version of {registry.artifact} is in {stage}.")
        if to:
            target = registry.version(to)
        else:
            target = registry.before(present, stage)
        if target == present:
            return present, present
        require_files(registry, target)
        refs = []
        if push and registry.tags().version_of(target.commit):
            # It may have been promoted without a push.
            push_versions(_pipeline(registry), registry.repository.root, [target])
            refs.append(f"refs/tags/{registry.artifact}@{target.name}")
        registry.promote(target.commit, stage, reason, refs=refs, push=push, hold=hold)
    return present, target


def _pipeline(registry: Registry) -> Pipeline:
    programs = Programs(registry.repository.root, "promotion")
    return Pipeline(programs, lambda line: say(line, error=True))


def require_files(registry: Registry, version: Version) -> None:
    """Fetch the model of a version as flow ``score`` does, which compares it with its hash.

    Raises:
        RegistryError: The model cannot be fetched, or is damaged.
    """
    try:
        fetch_model(registry, version, _pipeline(registry))
    except (ArtifactError, DataError, ProgramError) as error:
        hint = "If another machine has it, publish it there: python -m flows.promotion publish"
        raise RegistryError(
            f"{registry.artifact} {version.name} cannot be used, so nothing was changed: {error}\n{hint}"
        ) from None


def publish_registry(registry: Registry) -> None:
    """Publish what was promoted without a push: the data of every version, then the tags."""
    repository = registry.repository
    if not repository.has_remote():
        sys.exit("publish: the repository has no git remote named origin. Add one: git remote add origin URL")
    require_remote(repository.root)
    with registry.locked(LOCK_WAIT):
        registry.fetch()
        # The data first: tags name what everybody can fetch.
        tags = registry.tags()
        lost = push_versions(_pipeline(registry), repository.root, tags.versions)
        registry.publish([f"refs/tags/{tag.name}" for tag in tags.tags])
    if lost:
        sys.exit(
            "publish: origin has every version and stage, but not the files named above. If another machine"
            " has them: publish there."
        )
    say(f"origin has every version and stage: {names_of(tags.versions) or 'no version'}.")


def reference(registry: Registry, stage: str) -> None:
    """Write the profile of production's data for stage ``validate``, as flow ``train`` does."""
    version = fetch_reference(_pipeline(registry), registry, stage)
    if version is None:
        sys.exit(
            f"reference: no model with a profile is in {stage}, or there is no folder"
            f" {REFERENCE_PROFILE.parent}."
        )
    say(
        f"{REFERENCE_PROFILE} is that of {registry.artifact} {version.name} ({version.commit[:12]}). Next:"
        " dvc repro, and commit both."
    )


if __name__ == "__main__":
    main()
