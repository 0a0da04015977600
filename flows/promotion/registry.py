"""The registry of one artifact in a clone and in ``origin``: what is in a stage, and promotions.

A kill leaves a promotion undone or complete. ``tuneline/repository/registry.py`` describes the tags;
``gto show`` and ``gto history`` print the same. ``origin`` decides what counts: a promotion is first pushed,
all refs or none, and only then are its tags made here, in one transaction of git. A file marks the time
between. If it is still there, an earlier promotion was interrupted, and fetching from ``origin`` completes or
undoes it.

A tag that was removed in ``origin`` is removed here, too: ``refs/tuneline/`` has the tags that ``origin`` had
when it was last asked, so that they are not taken for tags that were never pushed.
"""

import contextlib
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flows.promotion.gate_log import GateLog
from flows.runs.repository import Repository, UnreachableError
from tuneline.repository.registry import (
    HOLD,
    TAG_FORMAT,
    RegistryTag,
    RegistryTags,
    Version,
    bump,
    deletion,
    version_key,
)
from tuneline.repository.worktrees import GitError
from tuneline.runtime.atomic_files import write_json
from tuneline.runtime.locks import BusyError, locked

PATIENCE = 30.0
"""Seconds to wait for ``origin`` where what this clone knows will do: the next run asks again."""


def merge(
    ours: RegistryTags, theirs: RegistryTags, tracked: Mapping[str, str] | None = None
) -> tuple[dict[str, RegistryTag], list[str]]:
    """Merge the tags of a clone with the tags of ``origin``.

    Args:
        ours: Tags of the clone.
        theirs: Tags of ``origin``.
        tracked: Objects of the tags that ``origin`` had when it was last asked, by name.

    Returns:
        The merged tags by name, and what happened to tags of the clone, in words. A tag whose own name
        differs from its name here is to be made anew.
    """
    tracked = tracked or {}
    published = {tag.name: tag for tag in theirs.tags}

    # Tags of the clone that origin lacks: either it had them once, or they were never pushed.
    removed = []
    unpublished = []
    for tag in ours.tags:
        if tag.name in published and published[tag.name].commit == tag.commit:
            continue
        if tracked.get(tag.name) == tag.object:
            removed.append(tag)
        else:
            unpublished.append(tag)

    changed = _changed_stages(ours, theirs, removed)

    # Unpublished versions may get other names; unpublished assignments stay where no stage has changed.
    versions = _renumbered([tag for tag in unpublished if tag.version], theirs)
    merged = dict(versions)
    for tag in unpublished:
        if tag.stage and tag.stage not in changed:
            merged[tag.name] = tag
    merged |= published

    # what happened
    messages = []
    for tag in removed:
        messages.append(f"{tag.name} ({tag.commit[:12]}) was removed in origin, and is removed here.")
    for name, tag in versions.items():
        if tag.name != name:
            messages.append(
                f"{tag.name} ({tag.commit[:12]}) is now {name}: another machine published other versions."
            )
    for tag in unpublished:
        if tag.stage in changed:
            messages.append(
                f"{tag.name} ({tag.commit[:12]}) was never pushed, and no longer counts: another machine has"
                f" changed {tag.stage} since."
            )
    return merged, messages


def _renumbered(unpublished: list[RegistryTag], theirs: RegistryTags) -> dict[str, RegistryTag]:
    """Return the unpublished tags of versions by the names that they get.

    They keep their own names, unless one is taken; then they get the next ones in the same order.
    """
    numbers = {version.commit: version.name for version in theirs.versions}

    # registrations of commits that origin has not registered
    registrations = []
    for tag in unpublished:
        if not tag.cancels and tag.commit not in numbers:
            registrations.append(tag)
    registrations.sort(key=lambda tag: version_key(str(tag.version)))
    own = {tag.commit: str(tag.version) for tag in registrations}

    # other names, if one of their own is taken
    taken = {tag.version for tag in theirs.tags}
    if not taken.isdisjoint(own.values()):
        number = theirs.next_version()
        for commit in own:
            own[commit] = number
            number = bump(number)
    numbers.update(own)

    renumbered = {}
    for tag in unpublished:
        if tag.commit in numbers:
            name = tag.name.replace(f"@{tag.version}", f"@{numbers[tag.commit]}", 1)
            renumbered[name] = tag
    return renumbered


def _changed_stages(ours: RegistryTags, theirs: RegistryTags, removed: Sequence[RegistryTag]) -> set[str]:
    """Return the stages that another machine has changed, in which only the word of ``origin`` counts.

    It has an assignment for them that the clone does not have, or lacks one of the ``removed`` tags.
    """
    own = {(tag.name, tag.commit) for tag in ours.tags}
    changed = {tag.stage for tag in removed if tag.stage}
    for tag in theirs.tags:
        if tag.stage and (tag.name, tag.commit) not in own:
            changed.add(tag.stage)
    return changed


_NONE_LEFT = (
    "origin has none of the {number} tags of {artifact} that it had. If it was made anew: python -m"
    " flows.promotion publish. If they were removed on purpose, remove them here, too: git tag --list"
    " '{artifact}[@#]*' | xargs git tag --delete"
)


class RegistryError(Exception):
    """The registry does not have the requested version."""


class ConflictError(Exception):
    """Another machine changed the registry of ``origin`` in the meantime; nothing was promoted."""


@dataclass(frozen=True)
class Registry:
    """The versions of one artifact, by its name under ``artifacts:`` in ``dvc.yaml``."""

    repository: Repository
    artifact: str

    @property
    def gate_log(self) -> GateLog:
        """The history of the gate's decisions."""
        return GateLog(self.repository, self.artifact)

    def tags(self) -> RegistryTags:
        """Return the tags of this clone."""
        patterns = self._patterns("refs/tags/")
        printed = self.repository.git("for-each-ref", f"--format={TAG_FORMAT}", *patterns)
        return RegistryTags.parse(printed).get(self.artifact) or RegistryTags(self.artifact, ())

    def in_stage(self, stage: str) -> Version | None:
        """Return the version that is in a stage now."""
        return self.tags().in_stage(stage)

    def version(self, name: str) -> Version:
        """Return a registered version by its name; a ``RegistryError`` if there is none."""
        versions = {version.name: version for version in self.tags().versions}
        if name not in versions:
            raise RegistryError(
                f"{self.artifact} has no version {name!r}; it has {', '.join(versions) or 'none'}."
            )
        return versions[name]

    def before(self, present: Version, stage: str) -> Version:
        """Return the version that was in a stage before the present one; rolled back versions are skipped."""
        tags = self.tags()
        order = []
        for commit in tags.succession(stage):
            version = tags.version_of(commit)
            if version:
                order.append(version)
        if len(order) < 2 or order[-1] != present:
            raise RegistryError(f"No version was in {stage} before {present.name}. Name one: --to VERSION.")
        return order[-2]

    @contextlib.contextmanager
    def locked(self, wait: float) -> Iterator[None]:
        """Hold the lock under which the processes of this machine change the registry.

        Raises:
            BusyError: Another process still has the lock after ``wait`` seconds.
        """
        self.repository.state.mkdir(parents=True, exist_ok=True)
        with locked(self.repository.state / "promotion.lock", wait):
            yield

    def refresh(self, *, push: bool) -> list[str]:
        """Prepare for a promotion: fetch if it will be pushed, or if an earlier one was interrupted.

        Under the lock. Only with ``push`` it is an error that ``origin`` cannot be reached.

        Returns:
            What changed beyond new tags, for the log.
        """
        if not push and not self._unfinished.exists():
            return []
        try:
            return self.fetch()
        except GitError as error:
            if push:
                raise
            return [f"A promotion was interrupted, and origin, which may have it, cannot be asked: {error}"]

    def fetch(self) -> list[str]:
        """Bring the tags of ``origin`` to this clone, and keep what was promoted here without a push.

        Under the lock.

        Returns:
            The conflicts that were resolved, for the log (``merge``).

        Raises:
            ConflictError: ``origin`` had tags, and has none of them any more; nothing was changed.
            GitError: ``origin`` cannot be reached.
        """
        messages: list[str] = []
        if self.repository.has_remote():
            messages = self._merge_with_origin()
        self._unfinished.unlink(missing_ok=True)
        return messages

    def _merge_with_origin(self) -> list[str]:
        ours = self.tags()
        theirs, their_decisions = self._refs_of_origin()
        tracked = self._tracked()
        our_objects = ours.objects
        if not theirs.tags and not tracked.items().isdisjoint(our_objects.items()):
            raise ConflictError(_NONE_LEFT.format(artifact=self.artifact, number=len(tracked)))
        merged, messages = merge(ours, theirs, tracked)

        # objects of origin that are not here
        missing = []
        for name, tag_object in theirs.objects.items():
            if our_objects.get(name) != tag_object:
                missing.append(f"refs/tags/{name}")
        if missing:
            self.repository.transfer("fetch", "--no-tags", "origin", *missing)
        self._merge_decisions(their_decisions)

        # tags
        objects = {name: self._object(name, tag) for name, tag in merged.items()}
        self._update(our_objects, objects)
        self._track(theirs.objects)
        return messages

    def fetch_if_possible(self) -> list[str]:
        """Fetch promotions and rollbacks of other machines.

        If ``origin`` does not answer, return a message about it at once, and keep what this clone knows.
        """
        try:
            if not self.repository.has_remote():
                return []
            impatient = Registry(replace(self.repository, patience=PATIENCE), self.artifact)
            with self.locked(wait=0):
                return impatient.fetch()
        except (BusyError, ConflictError, GitError) as error:
            return [f"Promotions and rollbacks of other machines are unknown: {error}"]

    def unpublished(self) -> list[Version]:
        """List the versions that ``origin`` does not have; none if there is no ``origin``.

        Raises:
            GitError: ``origin`` cannot be reached.
        """
        if not self.repository.has_remote():
            return []
        tags, _ = self._refs_of_origin()
        published = set(tags.versions)
        return [version for version in self.tags().versions if version not in published]

    def promote(
        self,
        commit: str,
        stage: str,
        message: str,
        *,
        refs: Sequence[str] = (),
        push: bool = False,
        hold: bool = False,
    ) -> Version:
        """Register a commit, unless it is registered, and assign it to a stage.

        Under the lock. The version takes the place of the present one. ``hold`` stops promotions to the stage
        in the same step, until ``release``.

        Raises:
            RegistryError: The version of the commit was taken back (``onnx@v0.1.0!``); nothing was changed.
                With a second version, ``gto`` could not read the registry any more.
            ConflictError: Another machine changed the registry in the meantime; nothing was changed.
            UnreachableError: ``origin`` could not be reached; what it has is asked later.
            GitError: ``origin`` refused; nothing was changed.
        """
        tags = self.tags()
        version = tags.version_of(commit)
        taken_back = tags.taken_back(commit)
        if taken_back:
            raise RegistryError(
                f"{self.artifact} {taken_back} ({commit[:12]}) was taken back, so it is not promoted. If that"
                f" was a mistake: {deletion([f'{self.artifact}@{taken_back}!'])}"
            )

        # names of the tags
        names = []
        if version is None:
            names.append(f"{self.artifact}@{tags.next_version()}")
        names.append(f"{self.artifact}#{stage}#{tags.next_number()}")
        if hold:
            names.append(f"{self.artifact}#{stage}{HOLD}#{tags.next_number() + 1}")
        self._tag(dict.fromkeys(names, commit), message, refs, push=push)
        return version or Version(tags.next_version(), commit)

    def hold(self, stage: str, reason: str, *, push: bool) -> None:
        """Stop promotions to a stage. Under the lock; raises what ``promote`` does.

        The present version is assigned once more: a promotion of another machine that is in progress becomes
        a conflict.
        """
        version = self.in_stage(stage)
        if version:
            self.promote(version.commit, stage, reason, push=push, hold=True)
        else:
            name = f"{self.artifact}#{stage}{HOLD}#{self.tags().next_number()}"
            self._tag({name: self.repository.resolve("HEAD")}, reason, (), push=push)

    def release(self, stage: str, reason: str, *, push: bool) -> None:
        """Allow promotions to a stage again. Under the lock; raises what ``promote`` does."""
        tags = self.tags()
        commits = {}
        for number, tag in enumerate(tags.holds(stage), start=tags.next_number()):
            commits[f"{self.artifact}#{stage}{HOLD}!#{number}"] = tag.commit
        self._tag(commits, reason, (), push=push)

    def _tag(self, commits: Mapping[str, str], message: str, refs: Sequence[str], *, push: bool) -> None:
        """Make tags with these names on commits, in ``origin`` first with ``push``."""
        after = max((tag.date for tag in self.tags().tags), default=0)
        new = {name: self._make_tag(name, commit, message, after) for name, commit in commits.items()}
        if push:
            self.publish(refs, new)
        self._update(self.tags().objects, new, keep=True)
        if push:
            self._unfinished.unlink(missing_ok=True)

    def publish(self, refs: Sequence[str], new: Mapping[str, str] | None = None) -> None:
        """Push refs, and tags and decisions that ``origin`` never had, all or none. Under the lock.

        ``new`` has tag objects by names that no tag of this clone has yet.

        Raises:
            ConflictError: Another machine changed the registry in the meantime.
            GitError: ``origin`` refused, or cannot be reached.
        """
        new = new or {}
        before = self.tags()
        tracked = self._tracked()

        # refs and tags that origin never had
        unpublished = {}
        for name, tag_object in before.objects.items():
            if tracked.get(name) != tag_object:
                unpublished[name] = tag_object
        unpublished |= new
        pushed = list(refs)
        for name, tag_object in unpublished.items():
            pushed.append(f"{tag_object}:refs/tags/{name}")
        decision = self.gate_log.tip
        if decision is not None and decision != self._tracked_decision:
            pushed.append(f"{decision}:{self.gate_log.ref}")
        if not pushed:  # git would push what its settings say
            return

        # From here to the end, a kill leaves a file: the next run asks origin what it has.
        write_json(self._unfinished, {"tags": list(new)})
        try:
            self.repository.transfer("push", "--atomic", "origin", *pushed)
        except UnreachableError:  # origin may have accepted all the same: the file tells the next run to ask
            raise
        except GitError as error:
            with contextlib.suppress(GitError):
                self.fetch()
            after = self.tags()
            if new and new.items() <= after.objects.items():
                return  # the connection broke after origin had accepted
            if after != before or self.gate_log.tip != decision:
                raise ConflictError(f"Another machine changed the registry in origin. {error}") from None
            raise
        self._track(tracked | unpublished)
        if decision is not None:
            self._track_decision(decision)
        if not new:
            self._unfinished.unlink(missing_ok=True)

    def forget_origin(self) -> None:
        """Take all tags of this clone for ones that ``origin`` never had.

        An ``origin`` that was made anew gets them with ``publish``.
        """
        self._track({})
        self.repository.git("update-ref", "-d", f"{self._tracking}gate/{self.artifact}")

    @property
    def _unfinished(self) -> Path:
        return self.repository.state / f"{self.artifact}.unfinished"

    @property
    def _tracking(self) -> str:
        """Start of the names of the refs that remember the tags of ``origin``, by its address."""
        address = self.repository.git("remote", "get-url", "origin")
        return f"refs/tuneline/{hashlib.sha256(address.encode()).hexdigest()[:12]}/"

    def _tracked(self) -> dict[str, str]:
        """Return the objects of the tags that ``origin`` had when it was last asked, by name."""
        prefix = self._tracking
        patterns = self._patterns(prefix)
        printed = self.repository.git("for-each-ref", "--format=%(objectname) %(refname)", *patterns)

        objects = {}
        for line in printed.splitlines():
            tag_object, ref = line.split(" ", 1)
            objects[ref.removeprefix(prefix)] = tag_object
        return objects

    def _track(self, tags: Mapping[str, str]) -> None:
        """Remember the tags that ``origin`` has now."""
        self._update_refs(self._tracking, self._tracked(), tags)

    def _patterns(self, prefix: str) -> list[str]:
        """Return the patterns of the refs of versions and of assignments, whose names begin with a prefix."""
        return [f"{prefix}{self.artifact}@*", f"{prefix}{self.artifact}#*"]

    def _merge_decisions(self, theirs: str | None) -> None:
        """Take the decisions of ``origin`` over, given the last one's commit; ``None``: it has none."""
        if theirs is None or theirs == self._tracked_decision:
            return
        self.repository.transfer("fetch", "--no-tags", "origin", self.gate_log.ref)
        self.gate_log.merge(theirs)
        self._track_decision(theirs)

    @property
    def _tracked_decision(self) -> str | None:
        """Commit of the last decision that ``origin`` had when it was last asked."""
        ref = f"{self._tracking}gate/{self.artifact}"
        return self.repository.git("for-each-ref", "--format=%(objectname)", ref) or None

    def _track_decision(self, commit: str) -> None:
        """Remember the last decision that ``origin`` has now."""
        self.repository.git("update-ref", f"{self._tracking}gate/{self.artifact}", commit)

    def _refs_of_origin(self) -> tuple[RegistryTags, str | None]:
        """Return the tags of ``origin``, and the commit of the last decision of the gate that it has."""
        log = self.gate_log.ref
        printed = self.repository.transfer("ls-remote", "origin", *self._patterns("refs/tags/"), log)
        objects: dict[str, str] = {}
        for line in printed.splitlines():
            tag_object, _, ref = line.partition("\t")
            objects[ref.removeprefix("refs/tags/")] = tag_object
        last_decision = objects.pop(log, None)

        tags = []
        for name, tag_object in objects.items():
            # git lists the commit of an annotated tag as NAME^{}
            tag = RegistryTag.parse(name, tag_object, objects.get(f"{name}^{{}}", ""))
            if tag:
                tags.append(tag)
        return RegistryTags(self.artifact, tuple(tags)), last_decision

    def _make_tag(self, name: str, commit: str, message: str, after: int) -> str:
        """Make a tag object, which no ref names yet, and return its hash.

        Its date is the time of the clock, but later than ``after``: gto orders assignments by their dates,
        and must come to our order.
        """
        author, now, zone = self.repository.git("var", "GIT_COMMITTER_IDENT").rsplit(" ", 2)
        tagger = f"{author} {max(int(now), after + 1)} {zone}"
        content = f"object {commit}\ntype commit\ntag {name}\ntagger {tagger}\n\n{message}\n"
        return self.repository.git("mktag", text=content)

    def _object(self, name: str, tag: RegistryTag) -> str:
        """Return the object of a tag; a new one if it is to have another name."""
        if tag.name == name or not tag.annotated:
            return tag.object
        content = self.repository.git("cat-file", "tag", tag.object)
        renamed = re.sub(r"^tag .*$", f"tag {name}", content, count=1, flags=re.MULTILINE)
        return self.repository.git("mktag", text=f"{renamed}\n")

    def _update(self, before: Mapping[str, str], after: Mapping[str, str], *, keep: bool = False) -> None:
        """Change the tags of this clone in one transaction; ``keep`` those that are not in ``after``."""
        if keep:
            after = {**before, **after}
        self._update_refs("refs/tags/", before, after)

    def _update_refs(self, prefix: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Change refs in one transaction, which fails if another process has changed one of them since."""
        commands = []
        for name, new in after.items():
            if name not in before:
                commands.append(f"create {prefix}{name} {new}")
        for name, new in after.items():
            if name in before and before[name] != new:
                commands.append(f"update {prefix}{name} {new} {before[name]}")
        for name, old in before.items():
            if name not in after:
                commands.append(f"delete {prefix}{name} {old}")
        if commands:
            lines = "\n".join(commands) + "\n"
            self.repository.git("update-ref", "--stdin", text=lines)
