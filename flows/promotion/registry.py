"""The registry of one artifact in a clone and in ``origin``: stages, promotions, the history of the gate.

``tuneline/repository/registry.py`` describes the tags; ``gto show`` and ``gto history`` print the same.
``origin`` decides what counts: a promotion is first pushed, all refs or none, and only then are its tags made
here. A kill between the two leaves a promotion that ``origin`` has, and the next fetch brings it.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from flows.runs.commits import contains
from flows.runs.repository import Repository, UnreachableError
from tuneline.gating.error_budget import GateEntry, as_message, history_ref, parse_messages, read_gate_history
from tuneline.repository.git import GitError
from tuneline.repository.registry import HOLD, TAG_FORMAT, RegistryTags, Version
from tuneline.runtime.locks import BusyError, locked

PATIENCE = 30.0
"""Seconds to wait for ``origin`` where what this clone knows will do: the next run asks again."""


class RegistryError(Exception):
    """The registry does not have the requested version."""


class ConflictError(Exception):
    """Another machine changed the registry of ``origin`` in the meantime; nothing was promoted."""


@dataclass(frozen=True)
class Registry:
    """The versions of one artifact, by its name under ``artifacts:`` in ``dvc.yaml``."""

    repository: Repository
    artifact: str

    def tags(self) -> RegistryTags:
        """Return the tags of this clone."""
        patterns = [f"refs/tags/{self.artifact}@*", f"refs/tags/{self.artifact}#*"]
        printed = self.repository.git("for-each-ref", f"--format={TAG_FORMAT}", *patterns)
        return RegistryTags.parse(printed).get(self.artifact) or RegistryTags(self.artifact, ())

    def in_stage(self, stage: str) -> Version | None:
        """Return the version that is in a stage now."""
        return self.tags().in_stage(stage)

    def version(self, name: str) -> Version:
        """Return a registered version by its name; a ``RegistryError`` if there is none."""
        versions = {version.name: version for version in self.tags().versions}
        if name not in versions:
            names = ", ".join(versions) or "none"
            raise RegistryError(f"{self.artifact} has no version {name!r}; it has {names}.")
        return versions[name]

    def before(self, present: Version, stage: str) -> Version:
        """Return the version that was in a stage before the present one; rolled back versions are skipped."""
        order = self.tags().succession(stage)
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

    def fetch(self) -> None:
        """Bring tags, decisions and branches of runs of ``origin`` to this clone. Under the lock.

        Where both have a tag of one name, that of ``origin`` counts.

        Raises:
            GitError: ``origin`` cannot be reached.
        """
        if not self.repository.has_remote():
            return
        refspecs = [f"+refs/tags/{self.artifact}{sign}*:refs/tags/{self.artifact}{sign}*" for sign in "@#"]
        refspecs.append("+refs/heads/runs/*:refs/remotes/origin/runs/*")
        refspecs.append("+refs/tuneline/gate/*:refs/tuneline/origin-gate/*")
        self.repository.transfer("fetch", "--quiet", "--no-tags", "origin", *refspecs)
        self._merge_decisions()

    def fetch_if_possible(self) -> list[str]:
        """Fetch promotions and rollbacks of other machines.

        If ``origin`` does not answer, return a message about it at once, and keep what this clone knows.
        """
        try:
            impatient = Registry(replace(self.repository, patience=PATIENCE), self.artifact)
            with self.locked(wait=0):
                impatient.fetch()
        except (BusyError, GitError) as error:
            return [f"Promotions and rollbacks of other machines are unknown: {error}"]
        return []

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

        Under the lock. The version takes the place of the present one. ``refs`` are pushed with the tags.
        ``hold`` stops promotions to the stage in the same step, until ``release``.

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
            names.append(f"{self.artifact}@{version.name}")
        names.append(f"{self.artifact}#{stage}#{number}")
        if hold:
            names.append(f"{self.artifact}#{stage}{HOLD}#{number + 1}")
        self._tag(dict.fromkeys(names, commit), message, refs, push=push)
        return version

    def hold(self, stage: str, reason: str, *, push: bool) -> None:
        """Stop promotions to a stage. Under the lock; raises what ``promote`` does.

        The present version is assigned once more: a promotion of another machine that is in progress becomes
        a conflict.
        """
        present = self.in_stage(stage)
        if present is not None:
            self.promote(present.commit, stage, reason, push=push, hold=True)
            return
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
        lines = [f"update refs/tags/{name} {tag_object}\n" for name, tag_object in new.items()]
        self.repository.git("update-ref", "--stdin", text="".join(lines))

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
        pushed = [*refs, *(f"{tag_object}:refs/tags/{name}" for name, tag_object in new.items())]
        before = (self.tags(), self._last_decision)
        if before[1]:
            pushed.append(history_ref(self.artifact))
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
        return read_gate_history(self.repository.root, self.artifact)

    def remember(self, entry: GateEntry) -> None:
        """Add a decision to the history."""
        self._chain([entry], self._last_decision)

    @property
    def _last_decision(self) -> str | None:
        """Commit of the latest decision; ``None`` without a history."""
        ref = history_ref(self.artifact)
        return self.repository.git("for-each-ref", "--format=%(objectname)", ref) or None

    def _merge_decisions(self) -> None:
        """Take over the decisions of ``origin``; what it lacks comes after them."""
        git = self.repository.git
        theirs = git("for-each-ref", "--format=%(objectname)", f"refs/tuneline/origin-gate/{self.artifact}")
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
            git("update-ref", history_ref(self.artifact), parent)
