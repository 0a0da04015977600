"""Events about changes of production that no run made: rollbacks, holds, releases, and tags that people pushed or removed.

A run sends the event of its own promotion (``gate.py``). Everything else is found by comparing the tags with
those that were told of before, so it does not matter by which program, or on which machine, a change was
made: whoever rolls back sends the event at once if a Prefect server is set, else flow ``score`` or ``watch``
does. The id of an event follows from its tags: the server takes it once.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid5

from flows.alerts import send
from flows.promotion.registry import Registry
from tuneline.core.records import Record
from tuneline.project.registry import HOLD, RegistryTag, RegistryTags, Version
from tuneline.project.repo import tagger_of

CHANGED = "tuneline.production.changed"


class ReportedTags(Record):
    """``.dvc/tmp/flows/production.json``: the objects of the tags that people were told of, and the commit in production then."""

    tags: Sequence[str]
    production: str | None


@dataclass(frozen=True)
class ProductionChange:
    """A change of a stage, for people and as the payload of an event.

    Attributes:
        version, before: What is in the stage after it, and what was there before; ``None`` for nothing.
        who, why: Of its tags; ``None`` where tags were removed.
    """

    message: str
    version: str | None
    before: str | None
    who: str | None = None
    why: str | None = None


def remember_if_first(registry: Registry, stage: str) -> None:
    """Record the present tags if people were told of nothing yet: the history of a registry is no news."""
    if not _record(registry).exists():
        _remember(registry, stage)


def tell_of_changes(registry: Registry, stage: str) -> list[str]:
    """Send an event for each change since the last call, and return what changed, in words.

    The first call only remembers.
    """
    remember_if_first(registry, stage)
    reported = ReportedTags.read_if_valid(_record(registry)) or ReportedTags(tags=(), production=None)
    found = changes(registry, stage, reported)
    for identity, change in found.items():
        resource = {
            "prefect.resource.id": f"tuneline.production.{registry.artifact}",
            "prefect.resource.name": registry.artifact,
        }
        send(CHANGED, resource, {"stage": stage, **asdict(change)}, identity)
    _remember(registry, stage)  # last: a kill repeats an event that the server knows
    return [change.message for change in found.values()]


def changes(registry: Registry, stage: str, reported: ReportedTags) -> dict[UUID, ProductionChange]:
    """Return the changes of a stage since people were told, each with the id of its event, in their order."""
    tags, known = registry.tags(), set(reported.tags)
    new = [tag for tag in tags.tags if tag.stage in {stage, stage + HOLD} and tag.object not in known]
    new.sort(key=lambda tag: tag.number)
    found = {}
    for _, made_at_once in groupby(new, key=lambda tag: (tag.date, tag.message)):
        group = list(made_at_once)
        if change := _change(registry, tags, stage, group):
            found[uuid5(NAMESPACE_URL, " ".join(tag.object for tag in group))] = change
    if known - {tag.object for tag in tags.tags} and (
        removal := _removal(registry, tags, stage, reported, new)
    ):
        found[uuid5(NAMESPACE_URL, " ".join(["removed", *sorted(known)]))] = removal
    return found


def _change(
    registry: Registry, tags: RegistryTags, stage: str, group: Sequence[RegistryTag]
) -> ProductionChange | None:
    """Return what tags that were made at once have changed; ``None`` if a run made them, which told of it."""
    commit_message = registry.repository.git("log", "-1", "--format=%B", group[0].commit)
    if group[0].is_of_run(commit_message):
        return None
    before = _until(tags, group[0].number - 1).in_stage(stage)
    after = _until(tags, group[-1].number).in_stage(stage)
    parts = [_describe_stage(tags, stage, group, before, after)] if before != after else []
    holds = [tag for tag in group if tag.stage == stage + HOLD]
    if holds:
        parts.append("promotions are possible again" if holds[-1].cancels else "promotions are on hold")
    if not parts:
        return None
    who, why = tagger_of(registry.repository.root, group[0]), group[0].message
    message = f"{registry.artifact}: {'; '.join(parts)}. By {who}: {why}"
    return ProductionChange(message, after.name if after else None, before.name if before else None, who, why)


def _describe_stage(
    tags: RegistryTags,
    stage: str,
    group: Sequence[RegistryTag],
    before: Version | None,
    after: Version | None,
) -> str:
    if after is None:
        return f"nothing is in {stage} any more"
    was_there = after in _until(tags, group[0].number - 1).ever_in(stage)
    return (
        f"{after.name} is in {stage}{' again' if was_there else ''}, in place of"
        f" {before.name if before else 'nothing'}"
    )


def _removal(
    registry: Registry, tags: RegistryTags, stage: str, reported: ReportedTags, new: Sequence[RegistryTag]
) -> ProductionChange | None:
    """Return what the removal of tags has changed; ``None`` if what is in the stage is there by a new tag, or was there before."""
    present = tags.in_stage(stage)
    commit = present.commit if present else None
    if commit == reported.production or any(tag.commit == commit for tag in new):
        return None
    name, before = present.name if present else None, (reported.production or "nothing")[:12]
    return ProductionChange(
        f"{registry.artifact}: tags were removed; {name or 'nothing'} is in {stage} now, in place of"
        f" {before}.",
        name,
        before,
    )


def _until(tags: RegistryTags, number: int) -> RegistryTags:
    """Return the registry as it was when the assignment with a number was the last."""
    return replace(tags, tags=tuple(tag for tag in tags.tags if tag.version or tag.number <= number))


def _record(registry: Registry) -> Path:
    return registry.repository.state / "production.json"


def _remember(registry: Registry, stage: str) -> None:
    tags = registry.tags()
    present = tags.in_stage(stage)
    ReportedTags(
        tags=[tag.object for tag in tags.tags], production=present.commit if present else None
    ).write(_record(registry))
