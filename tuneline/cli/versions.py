"""``tuneline versions``: what is in production, and the registered versions, the newest first."""

from datetime import UTC, datetime
from pathlib import Path

from tuneline.core.repository.git import registries, tagger_of
from tuneline.core.repository.registry import RegistryTags, Version
from tuneline.core.runtime.terminal import say, visible


def command() -> None:
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
        for line in version_lines(tags):
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


def version_lines(tags: RegistryTags) -> list[str]:
    """Return a line for each version, the newest first."""
    stages: dict[Version, list[str]] = {}
    for stage in tags.stages:
        staged = tags.in_stage(stage)
        if staged is not None:
            stages.setdefault(staged, []).append(stage)

    lines = []
    for version in reversed(tags.versions):
        place = ", ".join(stages.get(version, []))
        line = f"  {version.name:<10}  {version.commit[:12]}  {_time(tags.registered(version))}  {place}"
        lines.append(line.rstrip())
    return lines


def _time(date: int) -> str:
    return f"{datetime.fromtimestamp(date, UTC):%Y-%m-%d %H:%M} UTC"
