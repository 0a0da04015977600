"""The registry of the models in a clone and in ``origin``: promotions, holds, the history of the gate.

``tuneline/core/repository/registry.py`` describes the tags; ``gto show`` and ``gto history`` print the same.
``origin`` decides what counts: a promotion is first pushed, all refs or none, and only then are its tags made
here. A kill between the two leaves a promotion that ``origin`` has, and the next fetch brings it.
"""

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuneline.core.paths import CHECKS, REFERENCE_PROFILE
from tuneline.core.repository.git import GitError, lock_at
from tuneline.core.repository.promoted_models import ARTIFACT, PRODUCTION_STAGE
from tuneline.core.repository.registry import HOLD, TAG_FORMAT, RegistryTags, Version
from tuneline.core.repository.worktrees import fetched_files
from tuneline.core.runtime.files import BusyError, locked
from tuneline.operations.promotion.error_budget import (
    GateEntry,
    as_message,
    history_ref,
    parse_messages,
    read_gate_history,
)
from tuneline.operations.runs.commits import contains
from tuneline.operations.runs.repository import Repository, UnreachableError

PATIENCE = 30.0
"""Seconds to wait for ``origin`` where what this clone knows will do: the next run asks again."""


PROFILE = CHECKS / "profile.json"
"""The profile that ``validate`` writes."""


class RegistryError(Exception):
    """A version cannot be put into production."""


class ConflictError(Exception):
    """Another machine changed the registry of ``origin`` in the meantime; nothing was promoted."""


HISTORY = history_ref(ARTIFACT)
"""Ref with the history of the gate."""


@dataclass(frozen=True)
class Registry:
    """The versions of the model, which is the artifact ``onnx`` of ``dvc.yaml``."""

    repository: Repository

    def tags(self) -> RegistryTags:
        """Return the tags of this clone."""
        versions = f"refs/tags/{ARTIFACT}@*"
        stages = f"refs/tags/{ARTIFACT}#*"
        printed = self.repository.git("for-each-ref", f"--format={TAG_FORMAT}", versions, stages)
        return RegistryTags.parse(ARTIFACT, printed)

    def production(self) -> Version | None:
        """Return the version that is in production now."""
        return self.tags().in_stage(PRODUCTION_STAGE)

    def on_hold(self) -> str | None:
        """Say since when and why promotions are on hold, for people; ``None`` if they are not."""
        return self.tags().hold(PRODUCTION_STAGE)

    @contextlib.contextmanager
    def locked(self, wait: float) -> Iterator[None]:
        """Hold the lock under which the processes of this machine change the registry.

        Raises:
            BusyError: Another process still has the lock after ``wait`` seconds.
        """
        self.repository.state.mkdir(parents=True, exist_ok=True)
        with locked(self.repository.state / "promotion.lock", wait):
            yield

    def fetch(self, patience: float | None = None) -> None:
        """Bring tags, decisions and branches of runs of ``origin`` to this clone. Under the lock.

        Where both have a tag of one name, that of ``origin`` counts. ``patience``: see ``transfer``.

        Raises:
            GitError: ``origin`` cannot be reached.
        """
        if not self.repository.has_remote():
            return
        refspecs = [
            f"+refs/tags/{ARTIFACT}@*:refs/tags/{ARTIFACT}@*",
            f"+refs/tags/{ARTIFACT}#*:refs/tags/{ARTIFACT}#*",
            "+refs/heads/runs/*:refs/remotes/origin/runs/*",
            "+refs/tuneline/gate/*:refs/tuneline/origin-gate/*",
        ]
        self.repository.transfer("fetch", "--quiet", "--no-tags", "origin", *refspecs, patience=patience)
        self._merge_decisions()

    def fetch_if_possible(self) -> None:
        """Fetch promotions and rollbacks of other machines.

        If ``origin`` does not answer, log that at once, and keep what this clone knows.
        """
        try:
            with self.locked(wait=0):
                self.fetch(PATIENCE)
        except (BusyError, GitError) as error:
            self.repository.log(f"Promotions and rollbacks of other machines are unknown: {error}")

    def promote(
        self, commit: str, message: str, *, refs: Sequence[str] = (), push: bool = False, hold: bool = False
    ) -> Version:
        """Register a commit, unless it is registered, and put it into production.

        Under the lock. The version takes the place of the present one. ``refs`` are pushed with the tags.
        ``hold`` stops promotions in the same step, until ``release``.

        Raises:
            RegistryError: The version of the commit was taken back (``onnx@v0.1.0!``); nothing was changed.
            ConflictError: Another machine changed the registry in the meantime; nothing was changed.
            UnreachableError: ``origin`` could not be reached; the next fetch shows what it has.
            GitError: ``origin`` refused; nothing was changed.
        """
        tags = self.tags()
        if tags.is_taken_back(commit):
            raise RegistryError(f"The version of {commit[:12]} was taken back, so it is not promoted.")

        # names of the tags
        version = tags.version_of(commit)
        number = tags.next_number()
        names = []
        if version is None:
            version = Version(tags.next_version(), commit)
            names.append(f"{ARTIFACT}@{version.name}")
        names.append(f"{ARTIFACT}#{PRODUCTION_STAGE}#{number}")
        if hold:
            names.append(f"{ARTIFACT}#{PRODUCTION_STAGE}{HOLD}#{number + 1}")
        self._tag(dict.fromkeys(names, commit), message, refs, push=push)
        return version

    def hold(self, reason: str, *, push: bool) -> None:
        """Stop promotions. Under the lock; raises what ``promote`` does.

        The present version is assigned once more: a promotion of another machine that is in progress becomes
        a conflict.
        """
        present = self.production()
        if present is not None:
            self.promote(present.commit, reason, push=push, hold=True)
            return
        name = f"{ARTIFACT}#{PRODUCTION_STAGE}{HOLD}#{self.tags().next_number()}"
        self._tag({name: self.repository.resolve("HEAD")}, reason, (), push=push)

    def release(self, reason: str, *, push: bool) -> None:
        """Allow promotions again. Under the lock; raises what ``promote`` does."""
        tags = self.tags()
        commits = {}
        for number, tag in enumerate(tags.holds(PRODUCTION_STAGE), start=tags.next_number()):
            commits[f"{ARTIFACT}#{PRODUCTION_STAGE}{HOLD}!#{number}"] = tag.commit
        self._tag(commits, reason, (), push=push)

    def _tag(self, commits: Mapping[str, str], message: str, refs: Sequence[str], *, push: bool) -> None:
        """Make tags with these names on commits, in ``origin`` first with ``push``."""
        after = max((tag.date for tag in self.tags().tags), default=0)
        new = {}
        lines = ""
        for name, commit in commits.items():
            new[name] = self._make_tag(name, commit, message, after)
            lines += f"update refs/tags/{name} {new[name]}\n"
        if push:
            self.publish(refs, new)
        self.repository.git("update-ref", "--stdin", text=lines)

    def _make_tag(self, name: str, commit: str, message: str, after: int) -> str:
        """Make a tag object, which no ref names yet, and return its hash.

        Its date is the time of the clock, but later than ``after``: gto orders assignments by their dates,
        and must come to our order.
        """
        author, now, zone = self.repository.git("var", "GIT_COMMITTER_IDENT").rsplit(" ", 2)
        tagger = f"{author} {max(int(now), after + 1)} {zone}"
        content = f"object {commit}\ntype commit\ntag {name}\ntagger {tagger}\n\n{message}\n"
        return self.repository.git("mktag", text=content)

    def publish(self, refs: Sequence[str], new: Mapping[str, str] | None = None) -> None:
        """Push refs, the decisions of the gate, and ``new`` tag objects by their names: all or none.

        Raises:
            ConflictError: Another machine changed the registry in the meantime.
            GitError: ``origin`` refused, or cannot be reached.
        """
        new = new or {}
        pushed = list(refs)
        for name, tag_object in new.items():
            pushed.append(f"{tag_object}:refs/tags/{name}")
        before = (self.tags(), self._last_decision)
        if before[1]:
            pushed.append(HISTORY)
        if not pushed:  # git would push what its settings say
            return
        try:
            self.repository.transfer("push", "--quiet", "--atomic", "origin", *pushed)
        except UnreachableError:  # origin may have accepted all the same: the next fetch tells
            raise
        except GitError as error:
            with contextlib.suppress(GitError):
                self.fetch()
            published = {tag.name: tag.object for tag in self.tags().tags}
            if new and new.items() <= published.items():
                return  # the connection broke after origin had accepted
            if (self.tags(), self._last_decision) != before:
                raise ConflictError(f"Another machine changed the registry in origin. {error}") from None
            raise

    def decisions(self) -> list[GateEntry]:
        """Return the decisions of the gate, the latest last."""
        return read_gate_history(self.repository.root, ARTIFACT)

    def remember(self, entry: GateEntry) -> None:
        """Add a decision to the history."""
        self._chain([entry], self._last_decision)

    @property
    def _last_decision(self) -> str | None:
        """Commit of the latest decision; ``None`` without a history."""
        return self.repository.git("for-each-ref", "--format=%(objectname)", HISTORY) or None

    def _merge_decisions(self) -> None:
        """Take over the decisions of ``origin``; what it lacks comes after them."""
        git = self.repository.git
        theirs = git("for-each-ref", "--format=%(objectname)", f"refs/tuneline/origin-gate/{ARTIFACT}")
        ours = self._last_decision
        if not theirs or (ours and contains(self.repository, ours, theirs)):
            return
        own = []
        if ours:
            own = parse_messages(
                git("log", "--reverse", "-z", "--format=%B", f"{theirs}..{ours}").split("\0")
            )
        self._chain(own, theirs)

    def _chain(self, entries: Sequence[GateEntry], parent: str | None) -> None:
        """Let the ref name a chain that ends with entries, after a parent."""
        git = self.repository.git
        for entry in entries:
            parents = ["-p", parent] if parent else []
            parent = git("commit-tree", git("mktree", text=""), *parents, text=as_message(entry))
        if parent:
            git("update-ref", HISTORY, parent)


def fetch_profile(root: Path, version: Version) -> Path | None:
    """Return where DVC's cache has the profile of a version's data; ``None`` if it has none.

    Raises:
        DataError: The profile is neither in the cache nor in the DVC remote.
    """
    if lock_at(root, version.commit).out(str(CHECKS)) is None:
        return None
    return fetched_files(root, version.commit, str(PROFILE))[""]


def fetch_reference(checkout: Path, registry: Registry) -> Version | None:
    """Write ``data/reference/profile.json``, which stage ``validate`` reads, if the checkout has that folder.

    A run commits it with its result: ``validate`` remains a function of files that the commit names.

    Returns:
        The version whose profile was written; ``None`` if no model is in production yet, or its commit has no
        profile.

    Raises:
        DataError: The profile is neither in the cache nor in the DVC remote.
    """
    target = checkout / REFERENCE_PROFILE
    version = registry.production()
    if version is None or not target.parent.is_dir():
        return None
    profile = fetch_profile(registry.repository.root, version)
    if profile is None:
        return None
    shutil.copyfile(profile, target)
    return version
