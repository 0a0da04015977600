"""``tuneline versions``: what is in production, and the registered versions, the newest first."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tuneline.repository.git import registries, tagger_of
from tuneline.repository.registry import RegistryTags, Version
from tuneline.runtime.terminal import say, visible

SHOWN = 10
"""Number of versions that are shown without ``--all``."""

EveryVersion = Annotated[bool, typer.Option("--all", help=f"All versions, not only the last {SHOWN}")]


def command(every: EveryVersion = False) -> None:
    """Show what is in production, and the versions, the newest first.

    From the git tags of this clone: `git fetch --tags` brings those of others.
    """
    root = Path.cwd()
    by_artifact = registries(root)
    if not by_artifact:
        say("No version is registered yet. Flow train registers the models that it promotes.")
    for tags in by_artifact.values():
        for line in stage_lines(root, tags):
            say(line)
        for line in version_lines(tags, every=every):
            say(line)


def stage_lines(root: Path, tags: RegistryTags) -> list[str]:
    """Return a line for each stage: which version is in it, since when, and who put it there."""
    lines = []
    for stage in tags.stages:
        version = tags.in_stage(stage)
        if version is None:
            lines.append(f"{tags.artifact}: nothing is in {stage}")
        else:
            assignment = tags.assignments_of(version, stage)[-1]
            lines.append(
                f"{tags.artifact} {version.name} is in {stage} since {_time(assignment.date)}"
                f" ({tagger_of(root, assignment)}: {visible(assignment.message)})"
            )
        hold = tags.hold(stage)
        if hold:
            lines.append(hold)
    return lines


def version_lines(tags: RegistryTags, *, every: bool) -> list[str]:
    """Return a line for each version, the newest first, and how many are left out."""
    stages: dict[Version, list[str]] = {}
    for stage in tags.stages:
        staged = tags.in_stage(stage)
        if staged is not None:
            stages.setdefault(staged, []).append(stage)

    versions = tags.versions[::-1]
    shown = versions if every else versions[:SHOWN]
    width = max((len(version.name) for version in shown), default=0)
    lines = []
    for version in shown:
        place = ", ".join(stages.get(version, []))
        line = f"  {version.name:<{width}}  {version.commit[:12]}  {_time(tags.registered(version))}  {place}"
        lines.append(line.rstrip())
    if len(shown) < len(versions):
        lines.append(f"  ... and {len(versions) - len(shown)} more: tuneline versions --all")
    return lines


def _time(date: int) -> str:
    return f"{datetime.fromtimestamp(date, UTC):%Y-%m-%d %H:%M} UTC"
