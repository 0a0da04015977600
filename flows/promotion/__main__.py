"""Commands about production: ``python -m flows.promotion`` with the name of a command."""

# ruff: noqa: E402
from tuneline.runtime.terminal import explain_exceptions

explain_exceptions()  # first: the imports below take a second

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.settings import get_current_settings

from flows.promotion.challenge import challenge
from flows.promotion.changes import remember_if_first, tell_of_changes
from flows.promotion.production import fetch_model, fetch_reference, push_versions
from flows.promotion.registry import ConflictError, Registry, RegistryError
from flows.runs.pipeline import Pipeline
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import Repository
from tuneline.params.loading import load_params
from tuneline.paths import PARAMS, REFERENCE_PROFILE
from tuneline.repository.dvc import NoRemoteError, require_remote
from tuneline.repository.git import ArtifactError
from tuneline.repository.registry import Version, names_of
from tuneline.repository.worktrees import GitError
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
        policy = settings.promotion
        registry = Registry(repository, policy.artifact)
        if options.command == "publish":
            publish_registry(registry)
        elif options.command == "reference":
            reference(registry, policy.stage)
        else:
            push = options.push
            if push is None:
                push = settings.training.push and repository.has_remote()
            change(registry, policy.stage, options, push=push)
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

    compare = commands.add_parser(
        "challenge", help="compare a rejected result with production on rows that were labelled since"
    )
    compare.add_argument("commit", help="commit or branch of the result")
    compare.add_argument("rows", type=Path, help="file of all rows that were labelled since")
    compare.add_argument("--label", help="column of the labels (default: data.label_column)")

    for command in (back, hold, release, compare):
        push_help = "push the tag to origin, for other machines (default: training.push in conf/flows.yaml)"
        command.add_argument("--push", action=argparse.BooleanOptionalAction, help=push_help)

    commands.add_parser("publish", help="push the data and the tags of what was promoted without a push")
    commands.add_parser(
        "reference", help=f"write the profile of production's data to {REFERENCE_PROFILE}, for stage validate"
    )
    return parser.parse_args()


def change(registry: Registry, stage: str, options: argparse.Namespace, *, push: bool) -> None:
    """Roll back, hold or release, tell people, and print what is the case now."""
    remember_if_first(registry, stage)
    if options.command == "rollback":
        before, now = rollback(registry, stage, options.to, options.reason, push=push, hold=options.hold)
        name = f"{registry.artifact} in {stage}: {now.name} ({now.commit[:12]})"
        if now == before:
            say(f"{name}, as before: nothing was changed.")
        else:
            say(f"{name}; before: {before.name} ({before.commit[:12]})")
    elif options.command == "challenge":
        challenge_production(registry, options, push=push)
    else:
        with changing(registry, push=push):
            if options.command == "hold":
                registry.hold(stage, options.reason, push=push)
            else:
                registry.release(stage, options.reason, push=push)

    # what is the case now
    tell(registry, stage)
    hold = registry.tags().hold(stage)
    if hold:
        say(f"{hold} End it: python -m flows.promotion release")
    else:
        say(f"{registry.artifact}: promotions are not on hold.")


def challenge_production(registry: Registry, options: argparse.Namespace, *, push: bool) -> None:
    """Compare a rejected result with production on newly labelled rows, and print what they say."""
    root = registry.repository.root
    policy = load_settings(root).promotion
    label = options.label or load_params(root / PARAMS).data.label_column
    pipeline = Pipeline(Programs(root, "challenge"), lambda line: say(line, error=True))
    with changing(registry, push=push):
        result = challenge(
            pipeline, registry, policy, options.commit, options.rows.resolve(), label=label, push=push
        )
    say(f"{result}.")
    if result.version is None:
        say("It is not promoted. Ask again when more rows are labelled; that uses up nothing.")
    else:
        say(f"{registry.artifact} {result.version.name} is in {policy.stage}.")


def tell(registry: Registry, stage: str) -> None:
    """Send the events of what was changed, if a Prefect server is set and answers; else say who will."""
    later = "Flow watch sends the event within the hour."
    if get_current_settings().api.url is None:  # Prefect would start a temporary server
        say(f"PREFECT_API_URL names no server. {later}", error=True)
        return
    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
    if problem:
        say(f"The Prefect server does not answer ({problem}). {later}", error=True)
        return
    tell_of_changes(registry, stage)


@contextlib.contextmanager
def changing(registry: Registry, *, push: bool) -> Iterator[None]:
    """Hold the lock under which the registry may change.

    With ``push``, the registry is the one of ``origin``, and the DVC remote has the data of all versions.
    """
    with registry.locked(LOCK_WAIT):
        for message in registry.refresh(push=push):
            say(message, error=True)
        versions = registry.unpublished() if push else []
        if versions:
            programs = Programs(registry.repository.root, "promotion")
            push_versions(Pipeline(programs, lambda line: say(line, error=True)), versions)
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
        ProgramError: A version that ``origin`` does not have cannot be pushed to the DVC remote; nothing was
            changed.
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
        registry.promote(target.commit, stage, reason, push=push, hold=hold)
    return present, target


def require_files(registry: Registry, version: Version) -> None:
    """Fetch the model of a version as flow ``score`` does, which compares it with its hash.

    Raises:
        RegistryError: The model cannot be fetched, or is damaged.
    """
    pipeline = Pipeline(Programs(registry.repository.root, "promotion"), lambda _line: None)
    try:
        fetch_model(registry, version, pipeline)
    except (ArtifactError, DataError, ProgramError) as error:
        reason = str(error)
        if isinstance(error, ProgramError):
            reason = error.reason  # without the program's output
        hint = "If another machine has it, publish it there: python -m flows.promotion publish"
        raise RegistryError(
            f"{registry.artifact} {version.name} cannot be used, so nothing was changed: {reason}\n{hint}"
        ) from None


def publish_registry(registry: Registry) -> None:
    """Publish what was promoted without a push.

    The data of every version is pushed to the DVC remote, then the tags to ``origin``. A run with ``push:
    true`` and ``rollback --push`` do the same for versions that ``origin`` does not have.
    """
    if not registry.repository.has_remote():
        sys.exit("publish: the repository has no git remote named origin. Add one: git remote add origin URL")
    require_remote(registry.repository.root)
    programs = Programs(registry.repository.root, "publish")

    with registry.locked(LOCK_WAIT):
        try:
            messages = registry.fetch()
        except ConflictError:  # a person wants what was published there before to be there
            registry.forget_origin()
            messages = registry.fetch()
        for message in messages:
            say(message)

        # The data first: tags name what everybody can fetch.
        versions = registry.unpublished()
        lost = push_versions(Pipeline(programs, say), registry.tags().versions)
        registry.publish([])
    if lost:
        sys.exit(
            "publish: origin has every version and stage, but not the files named above. If another machine"
            " has them: publish there."
        )
    say(f"origin has every version and stage; new there: {names_of(versions) or 'no version'}.")


def reference(registry: Registry, stage: str) -> None:
    """Write the profile of production's data for stage ``validate``, as flow ``train`` does."""
    programs = Programs(registry.repository.root, "reference")
    version = fetch_reference(Pipeline(programs, lambda _line: None), registry, stage)
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
