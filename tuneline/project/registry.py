"""The model registry: git tags in gto's format, read in one order for everybody who asks what is in production.

``onnx@v0.2.0`` registers the commit that it is on as a version; ``onnx#production#2`` assigns a commit to a
stage, and ``onnx#production!#3`` takes it out again. While a commit is in ``production-hold``, nothing is
promoted to ``production``; the message of that tag says why. Assignments are ordered by their number. The
dates of tags come from the clocks of several machines, and decide nothing. That is why these tags are read
here and not with gto, which orders by dates: its commands (``gto show``), which come with DVC, are the
user's, and print the same.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from tuneline.core.terminal import visible

TAG_FORMAT = "%(objectname) %(*objectname) %(creatordate:unix) %(refname:strip=2) %(contents:subject)"
"""Format of ``git for-each-ref`` that ``RegistryTags.parse`` reads."""
FIRST_VERSION = "v0.1.0"
HOLD = "-hold"
"""End of the name of the stage whose assignments stop promotions to another."""

_DECISION = re.compile(r"^(Promoted|Rejected|Withheld) \(", re.MULTILINE)
"""Start of the gate's decision in the messages of a run's commit and of its tags (``flows/promotion/gate.py``)."""
_NAME = re.compile(
    r"(?P<artifact>[\w./=-]+)(@(?P<version>v\d+\.\d+\.\d+[\w.+-]*)|#(?P<stage>\w[\w/-]*))(?P<cancels>!?)(#(?P<number>\d+))?",
    re.ASCII,
)


@dataclass(frozen=True)
class Version:
    """A registered version of an artifact: its name, for example ``v0.1.0``, and the commit of the run that made it."""

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
        """Return the tag; ``None`` if its name is not one of the registry.

        ``commit`` is empty if the tag is not annotated.
        """
        if not (match := _NAME.fullmatch(name)):
            return None
        number, cancels = int(match["number"] or 0), bool(match["cancels"])
        return cls(
            name,
            tag_object,
            commit or tag_object,
            date,
            match["artifact"],
            match["version"],
            match["stage"],
            number,
            cancels,
            message,
        )

    def is_of_run(self, commit_message: str) -> bool:
        """Return True if a run made this tag: its message is the decision that the message of the run's commit has.

        A run that changes nothing makes no commit; then the message of the tag alone tells.
        """
        decision = decision_in(commit_message)
        return decision_in(self.message) == "promoted" and (
            decision is None or self.message in commit_message.splitlines()
        )

    @property
    def annotated(self) -> bool:
        """True if the tag is an object of its own; gto ignores others."""
        return self.object != self.commit


@dataclass(frozen=True)
class RegistryTags:
    """The tags of one artifact, in no order."""

    artifact: str
    tags: tuple[RegistryTag, ...]

    @classmethod
    def parse(cls, printed: str) -> dict[str, Self]:
        """Return the registries by artifact that ``git for-each-ref refs/tags`` printed with ``TAG_FORMAT``."""
        found: dict[str, list[RegistryTag]] = {}
        for line in printed.splitlines():
            tag_object, commit, date, rest = line.split(" ", 3)
            name, _, message = rest.partition(" ")
            if tag := RegistryTag.parse(name, tag_object, commit, int(date or 0), message):
                found.setdefault(tag.artifact, []).append(tag)
        return {artifact: cls(artifact, tuple(tags)) for artifact, tags in found.items()}

    @property
    def objects(self) -> dict[str, str]:
        """The objects of the tags, by name."""
        return {tag.name: tag.object for tag in self.tags}

    @property
    def versions(self) -> list[Version]:
        """The registered versions, the lowest first."""
        ended = self._deregistered
        tags = [
            tag for tag in self._annotated() if tag.version and not tag.cancels and tag.version not in ended
        ]
        return [
            Version(str(tag.version), tag.commit)
            for tag in sorted(tags, key=lambda tag: version_key(str(tag.version)))
        ]

    @property
    def stages(self) -> list[str]:
        """The stages that something was assigned to, or that are on hold."""
        return sorted({tag.stage.removesuffix(HOLD) for tag in self._annotated() if tag.stage})

    def holds(self, stage: str) -> list[RegistryTag]:
        """Return what stops promotions to a stage, the latest last."""
        last = {tag.commit: tag for tag in self._assignments(stage + HOLD)}
        return sorted((tag for tag in last.values() if not tag.cancels), key=lambda tag: tag.number)

    def hold(self, stage: str) -> str | None:
        """Return since when and why nothing is promoted to a stage, for people; ``None`` if that is not so."""
        if not (holds := self.holds(stage)):
            return None
        since = datetime.fromtimestamp(holds[-1].date, UTC)
        return (
            f"promotions of {self.artifact} to {stage} are on hold since {since:%Y-%m-%d %H:%M} UTC:"
            f" {visible(holds[-1].message)}"
        )

    @property
    def staged(self) -> list[Version]:
        """The versions that are in a stage now."""
        return list(dict.fromkeys(version for stage in self.stages if (version := self.in_stage(stage))))

    def version_of(self, commit: str) -> Version | None:
        """Return the version that a commit is registered as; ``None`` if it is not registered."""
        return next((version for version in self.versions if version.commit == commit), None)

    def in_stage(self, stage: str) -> Version | None:
        """Return the version that is in a stage now; its name is the commit's if that is not registered."""
        last = {tag.commit: tag for tag in self._assignments(stage)}
        ended = {tag.commit for tag in self._annotated() if tag.version in self._deregistered}
        present = [tag for tag in last.values() if not tag.cancels and tag.commit not in ended]
        if not present:
            return None
        commit = max(present, key=lambda tag: tag.number).commit
        return self.version_of(commit) or Version(commit, commit)

    def ever_in(self, stage: str) -> list[Version]:
        """List the versions that are or were in a stage."""
        commits = dict.fromkeys(tag.commit for tag in self._assignments(stage))
        return [version for version in map(self.version_of, commits) if version]

    def succession(self, stage: str) -> list[str]:
        """Return the commits that rollbacks of a stage go back through; the present one is the last.

        Assigning a commit again undoes the assignments after it: a second rollback goes one more version
        back, not forward again.
        """
        order: list[str] = []
        for tag in self._assignments(stage):
            if tag.cancels:
                order = [commit for commit in order if commit != tag.commit]
            else:
                order = [*(order[: order.index(tag.commit)] if tag.commit in order else order), tag.commit]
        return order

    def assignments_of(self, version: Version, stage: str) -> list[RegistryTag]:
        """Return the tags that put a version into a stage, the latest last."""
        return [tag for tag in self._assignments(stage) if tag.commit == version.commit and not tag.cancels]

    def next_version(self) -> str:
        """Return the version after the highest one; a deregistered one is not used again."""
        known = [tag.version for tag in self.tags if tag.version]
        return bump(max(known, key=version_key)) if known else FIRST_VERSION

    def next_number(self) -> int:
        """Return the number of the next assignment, as gto counts: of any stage."""
        return 1 + max((tag.number for tag in self.tags), default=0)

    def _annotated(self) -> Iterator[RegistryTag]:
        return (tag for tag in self.tags if tag.annotated)

    def _assignments(self, stage: str) -> list[RegistryTag]:
        return sorted((tag for tag in self._annotated() if tag.stage == stage), key=lambda tag: tag.number)

    @property
    def _deregistered(self) -> set[str]:
        return {tag.version for tag in self._annotated() if tag.version and tag.cancels}


def decision_in(message: str) -> str | None:
    """Return the decision of the gate in the message of a commit or tag: ``promoted``, ``rejected`` or ``withheld``; ``None`` for none."""
    match = _DECISION.search(message)
    return match[1].lower() if match else None


def version_key(name: str) -> tuple[int, int, int, bool, str]:
    """Return what semantic versions are compared by; a pre-release (``v1.0.0-rc``) is lower than its release."""
    numbers, _, more = name.removeprefix("v").partition("-")
    major, minor, patch = (int(number) for number in numbers.partition("+")[0].split("."))
    return major, minor, patch, not more, more


def bump(name: str) -> str:
    """Return the next minor version."""
    major, minor, *_ = version_key(name)
    return f"v{major}.{minor + 1}.0"
