"""The model registry: git tags in gto's format, read in one order for all who ask what is in production.

``onnx@v0.2.0`` registers the commit that it is on as a version; ``onnx#production#2`` assigns a commit to a
stage, and ``onnx#production!#3`` takes it out again. While a commit is in ``production-hold``, nothing is
promoted to ``production``; the message of that tag says why. Assignments are ordered by their number. The
dates of tags come from the clocks of several machines, and decide nothing. That is why these tags are read
here and not with gto, which orders by dates: its commands (``gto show``), which come with DVC, are the
user's, and print the same.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Self

from tuneline.core.runtime.terminal import visible

TAG_FORMAT = "%(objectname) %(*objectname) %(creatordate:unix) %(refname:strip=2) %(contents:subject)"
"""Format of ``git for-each-ref`` that ``RegistryTags.parse`` reads."""
HOLD = "-hold"
"""End of the name of the stage whose assignments stop promotions to another."""

_DECISION = re.compile(r"^(Promoted|Rejected|Withheld) \(", re.MULTILINE)
"""Start of the gate's decision in the message of a run's commit or of its tags.

``tuneline/operations/promotion/gate.py`` writes them.
"""
_NAME = re.compile(
    r"(?P<artifact>[\w./=-]+)"
    r"(@(?P<version>v\d+\.\d+\.\d+[\w.+-]*)|#(?P<stage>\w[\w/-]*))"
    r"(?P<cancels>!?)"
    r"(#(?P<number>\d+))?",
    re.ASCII,
)


@dataclass(frozen=True)
class Version:
    """A registered version of an artifact.

    Attributes:
        name: For example ``v0.1.0``.
        commit: Hash of the commit of the run that made it.
    """

    name: str
    commit: str


@dataclass(frozen=True)
class RegistryTag:
    """One tag of the registry.

    Attributes:
        object: Hash of the tag object; of the commit if the tag is not annotated.
        commit: Hash of the commit that it names.
        date: Unix time in seconds by the clock of the machine that made it; 0 if unknown.
        number: Position of an assignment among all of the artifact; 0 if it has none.
        message: First line of the tag's message; empty if unknown.
    """

    name: str
    object: str
    commit: str
    date: int
    artifact: str
    version: str | None
    stage: str | None
    number: int
    cancels: bool
    message: str = ""

    @classmethod
    def parse(cls, name: str, tag_object: str, commit: str, date: int = 0, message: str = "") -> Self | None:
        """Return the tag; ``None`` if it is none of the registry.

        ``commit`` is empty if the tag is not annotated; gto ignores such tags.
        """
        match = _NAME.fullmatch(name)
        if match is None or not commit:
            return None
        return cls(
            name=name,
            object=tag_object,
            commit=commit,
            date=date,
            artifact=match["artifact"],
            version=match["version"],
            stage=match["stage"],
            number=int(match["number"] or 0),
            cancels=bool(match["cancels"]),
            message=message,
        )


@dataclass(frozen=True)
class RegistryTags:
    """The tags of one artifact, in no order."""

    artifact: str
    tags: tuple[RegistryTag, ...]

    @classmethod
    def parse(cls, artifact: str, printed: str) -> Self:
        """Return the registry of an artifact, which may be empty.

        ``printed`` is what ``git for-each-ref refs/tags`` prints with ``TAG_FORMAT``.
        """
        tags = []
        # not splitlines: a message may have a separator that Unicode takes for the end of a line
        for line in filter(None, printed.split("\n")):
            tag_object, commit, date, rest = line.split(" ", 3)
            name, _, message = rest.partition(" ")
            tag = RegistryTag.parse(name, tag_object, commit, int(date or 0), message)
            if tag is not None and tag.artifact == artifact:
                tags.append(tag)
        return cls(artifact, tuple(tags))

    @cached_property
    def _registrations(self) -> dict[str, RegistryTag]:
        """The tags that register a version, by its name; those that were taken back as well."""
        return {tag.version: tag for tag in self.tags if tag.version and not tag.cancels}

    @cached_property
    def _taken_back(self) -> set[str]:
        """The names of versions that were taken back."""
        return {tag.version for tag in self.tags if tag.version and tag.cancels}

    @cached_property
    def versions(self) -> list[Version]:
        """The registered versions, the lowest first."""
        names = sorted(self._registrations.keys() - self._taken_back, key=version_key)
        return [Version(name, self._registrations[name].commit) for name in names]

    @property
    def stages(self) -> list[str]:
        """The stages that something was assigned to, or that are on hold."""
        return sorted({tag.stage.removesuffix(HOLD) for tag in self.tags if tag.stage})

    def holds(self, stage: str) -> list[RegistryTag]:
        """Return what stops promotions to a stage, the latest last."""
        return self._in_force(stage + HOLD)

    def hold(self, stage: str) -> str | None:
        """Say since when and why promotions to a stage are on hold, for people; ``None`` if none is."""
        holds = self.holds(stage)
        if not holds:
            return None
        since = datetime.fromtimestamp(holds[-1].date, UTC)
        return (
            f"promotions of {self.artifact} to {stage} are on hold since {since:%Y-%m-%d %H:%M} UTC:"
            f" {visible(holds[-1].message)}"
        )

    @property
    def staged(self) -> list[Version]:
        """The versions that are in a stage now."""
        in_stages = [self.in_stage(stage) for stage in self.stages]
        return list(dict.fromkeys(version for version in in_stages if version))

    @cached_property
    def _by_commit(self) -> dict[str, Version]:
        """The versions by commit; of several of one commit, the lowest."""
        return {version.commit: version for version in reversed(self.versions)}

    def version_of(self, commit: str) -> Version | None:
        """Return the version that a commit is registered as; ``None`` if it is not registered."""
        return self._by_commit.get(commit)

    def is_taken_back(self, commit: str) -> bool:
        """Return True if the version of a commit was taken back (``gto deregister``)."""
        names = {name for name, tag in self._registrations.items() if tag.commit == commit}
        return bool(names) and names <= self._taken_back

    def in_stage(self, stage: str) -> Version | None:
        """Return the version that is in a stage now; its name is the commit's if that is not registered."""
        # Several versions can be in a stage, as nothing takes the earlier ones out: the latest counts.
        assigned = [tag.commit for tag in self._in_force(stage) if not self.is_taken_back(tag.commit)]
        if not assigned:
            return None
        return self.version_of(assigned[-1]) or Version(assigned[-1], assigned[-1])

    def succession(self, stage: str) -> list[Version]:
        """Return the versions that rollbacks of a stage go back through; the present one is the last.

        Assigning a commit again undoes the assignments after it: a second rollback goes one more version
        back, not forward again.
        """
        commits: list[str] = []
        for tag in self._assignments(stage):
            if tag.commit in commits and tag.cancels:
                commits.remove(tag.commit)
            elif tag.commit in commits:
                del commits[commits.index(tag.commit) + 1 :]
            elif not tag.cancels:
                commits.append(tag.commit)
        versions = [self.version_of(commit) for commit in commits]
        return [version for version in versions if version]

    def next_version(self) -> str:
        """Return the minor version after the highest one; a deregistered one is not used again."""
        if not self._registrations:
            return "v0.1.0"
        major, minor = version_key(max(self._registrations, key=version_key))[:2]
        return f"v{major}.{minor + 1}.0"

    def next_number(self) -> int:
        """Return the number of the next assignment, as gto counts: of any stage."""
        return 1 + max((tag.number for tag in self.tags), default=0)

    def _assignments(self, stage: str) -> list[RegistryTag]:
        """List the tags that put a commit into a stage or take it out, in the order of their numbers."""
        tags = [tag for tag in self.tags if tag.stage == stage]
        return sorted(tags, key=lambda tag: tag.number)

    def _in_force(self, stage: str) -> list[RegistryTag]:
        """List the assignments to a stage that no later tag of the same commit ends, the latest last."""
        # Only the last tag of a commit counts: a commit may be assigned, taken out, and assigned again.
        last = {tag.commit: tag for tag in self._assignments(stage)}
        tags = [tag for tag in last.values() if not tag.cancels]
        return sorted(tags, key=lambda tag: tag.number)


def decision_in(message: str) -> str | None:
    """Return the decision of the gate in the message of a commit or tag; ``None`` if it has none.

    It is ``promoted``, ``rejected`` or ``withheld``.
    """
    match = _DECISION.search(message)
    if match is None:
        return None
    return match[1].lower()


def version_key(name: str) -> tuple[int, int, int, bool, str]:
    """Return what semantic versions are compared by.

    A pre-release (``v1.0.0-rc``) is lower than its release.
    """
    core, _, pre_release = name.removeprefix("v").partition("-")
    numbers = core.partition("+")[0].split(".")  # without build metadata
    major, minor, patch = (int(number) for number in numbers)
    return major, minor, patch, not pre_release, pre_release
