"""The model registry: gto's git tags. A version is a tag on a commit; a stage is a tag that names a version.

``gto show`` and ``gto history`` print the same; rollback is ``python -m flows.promotion.rollback``.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flows.runs.repository import AUTHOR, GitError, Repository

FIRST = "v0.1.0"


class RegistryError(Exception):
    """The registry does not have the requested version."""


class ConflictError(Exception):
    """Another machine promoted a model in the meantime."""


@dataclass(frozen=True)
class Version:
    """A registered version of an artifact.

    Attributes:
        name: For example ``v0.1.0``.
        commit: Commit of the run that made it.
    """

    name: str
    commit: str


@dataclass(frozen=True)
class Registry:
    """The versions of one artifact.

    Attributes:
        repository: Repository with the tags.
        artifact: Name under ``artifacts:`` in ``dvc.yaml``.
    """

    repository: Repository
    artifact: str

    def fetch(self) -> None:
        """Fetch the tags of ``origin``: promotions and rollbacks of other machines.

        Raises:
            GitError: ``origin`` cannot be reached.
        """
        self.repository.git("fetch", "--quiet", "--tags", "origin")

    def in_stage(self, stage: str) -> Version | None:
        """Return the version that is in a stage now."""
        if not self.tags():  # gto fails for an artifact without tags
            return None
        assigned = _api().show(str(self.repository.root), f"{self.artifact}#{stage}")
        return Version(assigned[0]["version"], assigned[0]["commit_hexsha"]) if assigned else None

    def ever_in(self, stage: str) -> list[Version]:
        """List the versions that are or were in a stage."""
        tags = self.repository.git("for-each-ref", "--format=%(*objectname)", f"refs/tags/{self.artifact}#{stage}#*")
        versions = (self.version_of(commit) for commit in dict.fromkeys(tags.split()))
        return [version for version in versions if version]

    def version_of(self, commit: str) -> Version | None:
        """Return the version that a commit is registered as; ``None`` if it is not registered."""
        tags = self.repository.git("tag", "--points-at", commit, "--list", f"{self.artifact}@*").split()
        return Version(tags[0].partition("@")[2], commit) if tags else None

    def version(self, name: str) -> Version:
        """Return a registered version by its name.

        Raises:
            RegistryError: No version has that name.
        """
        known = [tag.partition("@")[2] for tag in sorted(self.tags()) if "@" in tag]
        if name not in known:
            raise RegistryError(f"{self.artifact} has no version {name!r}; it has {', '.join(known) or 'none'}.")
        return Version(name, self.repository.resolve(f"{self.artifact}@{name}"))

    def before(self, present: Version, stage: str) -> Version:
        """Return the version that was in a stage before the present one.

        Versions that were rolled back are skipped: a second rollback goes one more version back, not forward again.

        Raises:
            RegistryError: No version was in the stage before.
        """
        events = [one for one in _api().history(str(self.repository.root), self.artifact) if one["event"] == "assignment"]
        events = sorted((one for one in events if one["stage"] == stage), key=lambda one: int(one["ref"].rpartition("#")[2]))
        order: list[str] = []
        for event in events:  # assigning a version again undoes the assignments after it
            order = [*order[: order.index(event["version"])], event["version"]] if event["version"] in order else [*order, event["version"]]
        if len(order) < 2 or order[-1] != present.name:
            raise RegistryError(f"No version was in {stage} before {present.name}. Name one: --to VERSION.")
        return self.version(order[-2])

    def register(self, commit: str, message: str) -> Version:
        """Register a commit as the next version."""
        number: dict[str, Any] = {"bump_minor": True} if any("@" in tag for tag in self.tags()) else {"version": FIRST}
        tag = _api().register(str(self.repository.root), self.artifact, commit, message=message, **number, **self._author)
        return Version(tag.version, commit)

    def assign(self, version: Version, stage: str, message: str) -> None:
        """Assign a version to a stage, in place of the present one. It may have been there before."""
        self._wait_for_the_next_second(stage)
        options = {"version": version.name, "message": message, "force": True, **self._author}
        _api().assign(str(self.repository.root), self.artifact, stage, **options)

    def tags(self) -> set[str]:
        """Return all tags of the artifact."""
        return set(self.repository.git("tag", "--list", f"{self.artifact}@*", f"{self.artifact}#*").split())

    def push(self, refs: Sequence[str]) -> None:
        """Push new tags (and a branch) to ``origin``, all or none.

        Raises:
            ConflictError: ``origin`` has one of the tags already: another machine promoted a model. Our tags are deleted.
        """
        try:
            self.repository.git("push", "--quiet", "--atomic", "origin", *refs)
        except GitError as error:
            if "already exists" not in str(error):
                raise
            self.repository.git("tag", "--delete", *[ref for ref in refs if ref in self.tags()])
            raise ConflictError(str(error)) from None

    def _wait_for_the_next_second(self, stage: str) -> None:
        """Wait until a new tag is a second younger: gto orders two tags of the same second wrongly."""
        newest = ("--sort=-creatordate", "--count=1", "--format=%(creatordate:unix)", f"refs/tags/{self.artifact}#{stage}#*")
        made = int(self.repository.git("for-each-ref", *newest) or 0)
        if 0 <= (left := made + 1 - time.time()) <= 1:
            time.sleep(left)

    @property
    def _author(self) -> dict[str, Any]:
        known = self.repository.has_author
        return {} if known else {"author": AUTHOR["name"], "author_email": AUTHOR["email"]}


def _api() -> Any:
    from gto import api  # takes most of a second to import

    return api
