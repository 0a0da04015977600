"""Events about changes of production that no run made: rollbacks, holds, releases, and tags of people.

A run sends the event of its own promotion (``gate.py``). Everything else is found by comparing the tags with
those that were told of before, so it does not matter by which program, or on which machine, a change was
made: whoever rolls back sends the event at once if a Prefect server is set, else flow ``score`` or ``watch``
does. The id of an event follows from its tags: the server takes it once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid5

from flows.alerts import send
from flows.promotion.registry import Registry
from tuneline.core.records import Record
from tuneline.core.written_records import write_record
from tuneline.repository.git import messages_of, tagger_of
from tuneline.repository.registry import HOLD, RegistryTag, RegistryTags, Version

CHANGED = "tuneline.production.changed"


class ReportedTags(Record):
    """``.dvc/tmp/flows/production.json``: the tags that people were told of."""

    tags: Sequence[str]
    """Objects of the tags."""
    production: str | None
    """Commit that was in production then."""


@dataclass(frozen=True)
class ProductionChange:
    """A change of a stage, for people and as the payload of an event.

    Attributes:
        version, before: Version in the stage after the change, and before it; ``None`` for nothing.
        who, why: Author and message of the tags; ``None`` where tags were removed.
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
    reported = ReportedTags.read_if_valid(_record(registry))
    if reported is None:
        reported = ReportedTags(tags=(), production=None)

    # events
    resource = {
        "prefect.resource.id": f"tuneline.production.{registry.artifact}",
        "prefect.resource.name": registry.artifact,
    }
    messages = []
    for identity, change in changes(registry, stage, reported).items():
        send(CHANGED, resource, {"stage": stage, **asdict(change)}, identity)
        messages.append(change.message)

    # Last: after a kill the next call repeats an event, which the server knows by its id.
    _remember(registry, stage)
    return messages


def changes(registry: Registry, stage: str, reported: ReportedTags) -> dict[UUID, ProductionChange]:
    """Return the changes of a stage since people were told, each with the id of its event, in their order."""
    tags = registry.tags()
    reported_objects = set(reported.tags)

    # new tags of the stage
    new = []
    for tag in tags.tags:
        if tag.stage in {stage, stage + HOLD} and tag.object not in reported_objects:
            new.append(tag)
    new.sort(key=lambda tag: tag.number)

    # One command makes several tags at once, of one date and message: together they are one change.
    commit_messages = messages_of(registry.repository.root, [tag.commit for tag in new])
    stage_changes = {}
    for _, made_at_once in groupby(new, key=lambda tag: (tag.date, tag.message)):
        group = list(made_at_once)
        if group[0].is_of_run(commit_messages.get(group[0].commit, "")):  # the run told of it
            continue
        change = _change(registry, tags, stage, group)
        if change:
            stage_changes[_event_id(tag.object for tag in group)] = change

    # removed tags
    if not reported_objects.issubset(tags.objects.values()):
        removal = _removal(registry, tags, stage, reported, new)
        if removal:
            stage_changes[_event_id(["removed", *sorted(reported_objects)])] = removal
    return stage_changes


def _event_id(names: Iterable[str]) -> UUID:
    return uuid5(NAMESPACE_URL, " ".join(names))


def _change(
    registry: Registry, tags: RegistryTags, stage: str, group: Sequence[RegistryTag]
) -> ProductionChange | None:
    """Return what tags that were made at once have changed; ``None`` for nothing."""
    before = _until(tags, group[0].number - 1).in_stage(stage)
    after = _until(tags, group[-1].number).in_stage(stage)
    parts = []
    if before != after:
        parts.append(_describe_stage(tags, stage, group, before, after))
    holds = [tag for tag in group if tag.stage == stage + HOLD]
    if holds and holds[-1].cancels:
        parts.append("promotions are possible again")
    elif holds:
        parts.append("promotions are on hold")
    if not parts:
        return None

    who = tagger_of(registry.repository.root, group[0])
    why = group[0].message
    return ProductionChange(
        message=f"{registry.artifact}: {'; '.join(parts)}. By {who}: {why}",
        version=_name(after),
        before=_name(before),
        who=who,
        why=why,
    )


def _name(version: Version | None) -> str | None:
    if version is None:
        return None
    return version.name


def _describe_stage(
    tags: RegistryTags,
    stage: str,
    group: Sequence[RegistryTag],
    before: Version | None,
    after: Version | None,
) -> str:
    if after is None:
        return f"nothing is in {stage} any more"
    place = stage
    if after in _until(tags, group[0].number - 1).ever_in(stage):
        place = f"{stage} again"
    former = _name(before) or "nothing"
    return f"{after.name} is in {place}, in place of {former}"


def _removal(
    registry: Registry, tags: RegistryTags, stage: str, reported: ReportedTags, new: Sequence[RegistryTag]
) -> ProductionChange | None:
    """Return what the removal of tags has changed.

    It is ``None`` if what is in the stage is there by a new tag, or was there before.
    """
    version = tags.in_stage(stage)
    commit = version.commit if version else None
    if commit == reported.production or any(tag.commit == commit for tag in new):
        return None

    name = _name(version)
    before = (reported.production or "nothing")[:12]
    message = (
        f"{registry.artifact}: tags were removed; {name or 'nothing'} is in {stage} now, in place of"
        f" {before}."
    )
    return ProductionChange(message, name, before)


def _until(tags: RegistryTags, number: int) -> RegistryTags:
    """Return the registry as it was when the assignment with a number was the last."""
    earlier = [tag for tag in tags.tags if tag.version or tag.number <= number]
    return replace(tags, tags=tuple(earlier))


def _record(registry: Registry) -> Path:
    return registry.repository.state / "production.json"


def _remember(registry: Registry, stage: str) -> None:
    tags = registry.tags()
    version = tags.in_stage(stage)
    production = version.commit if version else None
    reported = ReportedTags(tags=list(tags.objects.values()), production=production)
    write_record(_record(registry), reported)
