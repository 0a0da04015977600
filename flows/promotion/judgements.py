"""Judgements of results, so that no result is judged twice under the same conditions.

They are in ``judgements.json`` in the repository's folder of states, by the git tree of the result. A file of
this clone and not of the commits: a run that changes nothing makes no commit, and a branch may be deleted.
Without the file, a result is judged once more.
"""

import hashlib
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter, ValidationError

from flows.promotion.registry import Registry
from flows.runs.commits import RunResult
from flows.runs.repository import Repository
from tuneline.runtime.atomic_files import write_json
from tuneline.settings import PromotionPolicy

REMEMBERED = 1000
"""Number of judgements that are kept."""


@dataclass(frozen=True)
class Conditions:
    """What a decision depends on besides the result.

    Attributes:
        production: The commit in production, if there is one.
        policy: SHA-256 of the policy's conditions; ``None``: promote nothing.
        pushed: True if the result is pushed to ``origin``.
        hold: Of a run, the hold that stops promotions. Of a decision, the hold that alone stopped the
            promotion.
    """

    production: str | None
    policy: str | None
    pushed: bool
    hold: str | None = None

    @classmethod
    def of(cls, registry: Registry, policy: PromotionPolicy | None, *, pushed: bool) -> "Conditions":
        """Return the conditions of a run that ends now."""
        if policy is None:
            return cls(production=None, policy=None, pushed=pushed)
        version = registry.in_stage(policy.stage)
        return cls(
            production=version.commit if version else None,
            policy=hashlib.sha256(policy.conditions().encode()).hexdigest(),
            pushed=pushed,
            hold=registry.tags().hold(policy.stage),
        )

    def covers(self, later: "Conditions") -> bool:
        """Return True if a decision under these conditions answers for a run under ``later`` ones."""
        if later.pushed and not self.pushed:
            return False
        if later.policy is None:
            return True
        is_same_comparison = self.production == later.production and self.policy == later.policy
        # A decision that only a hold stopped is made again once this hold has ended.
        is_still_held = self.hold is None or self.hold == later.hold
        return is_same_comparison and is_still_held


@dataclass(frozen=True)
class Judgement:
    """A result and the conditions under which it was judged.

    Attributes:
        run: Id of the run that was judged.
        seen: Unix time at which a later run last came to the same result; 0 if none did.
    """

    run: str
    result: RunResult
    conditions: Conditions
    seen: float = 0


_JUDGEMENTS = TypeAdapter(dict[str, Judgement])


class Judgements:
    """The judgements of a clone, by git tree. The caller holds the registry's lock."""

    def __init__(self, repository: Repository) -> None:
        self._file = repository.state / "judgements.json"

    def find(self, tree: str) -> Judgement | None:
        """Return the last judgement of a result."""
        return self._read().get(tree)

    def add(self, tree: str, judgement: Judgement) -> None:
        """Remember a judgement in place of an earlier one of the same result; the latest ones are kept."""
        judgements = self._read()
        # Removed first, so that it becomes the last of the mapping also if it was in it.
        judgements.pop(tree, None)
        judgements[tree] = judgement
        latest = list(judgements)[-REMEMBERED:]
        write_json(self._file, {tree: asdict(judgements[tree]) for tree in latest})

    def commits_since(self, since: float) -> set[str]:
        """Return the commits of results that a later run came to at or after a Unix time."""
        commits = set()
        for judgement in self._read().values():
            if judgement.seen >= since:
                commits.add(judgement.result.commit)
        return commits

    def _read(self) -> dict[str, Judgement]:
        """Return the content of the file; nothing if it is missing or damaged."""
        try:
            return _JUDGEMENTS.validate_json(self._file.read_bytes())
        except (FileNotFoundError, ValidationError):
            return {}
