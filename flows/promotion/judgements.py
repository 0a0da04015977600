"""What was judged before: a run with the same result, under the same conditions, has nothing new to tell.

The judgements are in ``judgements.json`` in the repository's folder of states, by the git tree of the result. A file of this clone and not
of the commits: a run that changes nothing makes no commit, and a branch may be deleted. Without the file, a result is judged once more.
"""

import hashlib
import time
from dataclasses import asdict, dataclass, replace

from pydantic import TypeAdapter, ValidationError

from flows.promotion.registry import Registry
from flows.runs.repository import Repository
from flows.runs.results import Result
from flows.settings.promotion import PromotionPolicy
from tuneline.files import write_json

KEPT = 1000
"""Number of results that are remembered."""


@dataclass(frozen=True)
class Conditions:
    """What a decision depends on besides the result.

    Attributes:
        production: Commit of the model in production; ``None`` if there was none.
        policy: SHA-256 of the policy; ``None`` if no promotion was requested.
        pushed: True if the result was to be pushed.
    """

    production: str | None
    policy: str | None
    pushed: bool

    @classmethod
    def of(cls, registry: Registry, policy: PromotionPolicy | None, *, push: bool) -> "Conditions":
        """Return the conditions of a run."""
        if policy is None:
            return cls(None, None, push)
        production = registry.in_stage(policy.stage)
        return cls(production.commit if production else None, hashlib.sha256(policy.conditions().encode()).hexdigest(), push)

    def covers(self, later: "Conditions") -> bool:
        """Return True if a decision under these conditions answers for a run under ``later`` ones."""
        judged = later.policy is None or (self.production, self.policy) == (later.production, later.policy)
        return judged and self.pushed >= later.pushed


@dataclass(frozen=True)
class Judgement:
    """A result that was judged.

    Attributes:
        run: Id of the Prefect run.
        result: Its commit and branch.
        conditions: Conditions of the decision.
        seen: Unix time at which a later run last came to the same result.
    """

    run: str
    result: Result
    conditions: Conditions
    seen: float = 0


_FILE = TypeAdapter(dict[str, Judgement])


class Judgements:
    """The judgements of a clone. The caller holds the registry's lock.

    Args:
        repository: The clone.
    """

    def __init__(self, repository: Repository) -> None:
        self._file = repository.state / "judgements.json"

    def find(self, tree: str) -> Judgement | None:
        """Return the last judgement of a result, by its git tree."""
        return self._read().get(tree)

    def add(self, tree: str, judgement: Judgement) -> None:
        """Remember a judgement in place of an earlier one of the same result."""
        known = self._read()
        known.pop(tree, None)  # the latest are kept
        known[tree] = judgement
        write_json(self._file, {key: asdict(known[key]) for key in list(known)[-KEPT:]})

    def renew(self, tree: str) -> None:
        """Note that another run has come to a result that was judged: flow ``clean`` keeps its branch."""
        if judgement := self.find(tree):
            self.add(tree, replace(judgement, seen=time.time()))

    def commits_since(self, since: float) -> set[str]:
        """Return the commits of results that a later run came to at or after a Unix time."""
        return {judgement.result.commit for judgement in self._read().values() if judgement.seen >= since}

    def _read(self) -> dict[str, Judgement]:
        """Return the content of the file; nothing if it is missing or damaged: then a result is judged once more."""
        try:
            return _FILE.validate_json(self._file.read_bytes())
        except (FileNotFoundError, ValidationError):
            return {}
