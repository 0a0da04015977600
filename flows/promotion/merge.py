"""Merge the registry of a clone with that of ``origin``, which other machines change. Pure functions, no input or output.

What ``origin`` has stays as it is. What was promoted here and never pushed is kept, with two exceptions: a version whose number
another machine has taken gets the next free one; and if another machine has changed a stage in the meantime, the assignments that
only this clone has no longer count, because they were decided without knowing the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tuneline.registry import RegistryTag, RegistryTags, bump, version_key


@dataclass(frozen=True)
class Merge:
    """The tags of a clone after the merge.

    Attributes:
        tags: By name. A tag whose own name differs is to be made anew under the new name.
        messages: What happened to tags of this clone.
    """

    tags: Mapping[str, RegistryTag]
    messages: tuple[str, ...]


def merge(ours: RegistryTags, theirs: RegistryTags) -> Merge:
    """Merge the tags of a clone with those of ``origin``."""
    published = {tag.name: tag for tag in theirs.tags}
    unpublished = [tag for tag in ours.tags if tag.name not in published or published[tag.name].commit != tag.commit]
    versions = _renumbered([tag for tag in unpublished if tag.version], theirs)
    changed = _changed_stages(ours, theirs)
    assignments = {tag.name: tag for tag in unpublished if tag.stage and tag.stage not in changed}
    renamed = [
        f"{tag.name} ({tag.commit[:12]}) is now {name}: another machine published other versions."
        for name, tag in versions.items()
        if tag.name != name
    ]
    undone = [
        f"{tag.name} ({tag.commit[:12]}) was never pushed, and no longer counts: another machine has changed {tag.stage} since."
        for tag in unpublished
        if tag.stage in changed
    ]
    return Merge({**versions, **assignments, **published}, (*renamed, *undone))


def _renumbered(unpublished: list[RegistryTag], theirs: RegistryTags) -> dict[str, RegistryTag]:
    """Return the unpublished tags of versions by name: their own names, unless one is taken; then the next ones in the same order."""
    numbers = {version.commit: version.name for version in theirs.versions}
    registrations = (tag for tag in unpublished if not tag.cancels and tag.commit not in numbers)
    own = {tag.commit: str(tag.version) for tag in sorted(registrations, key=lambda tag: version_key(str(tag.version)))}
    if set(own.values()) & {tag.version for tag in theirs.tags}:
        number = theirs.next_version()
        for commit in own:
            own[commit], number = number, bump(number)
    numbers.update(own)
    return {tag.name.replace(f"@{tag.version}", f"@{numbers[tag.commit]}", 1): tag for tag in unpublished if tag.commit in numbers}


def _changed_stages(ours: RegistryTags, theirs: RegistryTags) -> set[str]:
    """Return the stages for which ``origin`` has an assignment that the clone does not have."""
    known = {(tag.name, tag.commit) for tag in ours.tags}
    return {tag.stage for tag in theirs.tags if tag.stage and (tag.name, tag.commit) not in known}
