"""Writes the history of the gate: one more decision, and the decisions of other machines.

``tuneline/gating/gate_history.py`` describes it. The caller holds the registry's lock.
"""

from dataclasses import dataclass

from flows.runs.commits import contains
from flows.runs.repository import Repository
from tuneline.gating.error_budget import GateEntry
from tuneline.gating.gate_history import as_message, history_ref, parse_messages, read_gate_history


@dataclass(frozen=True)
class GateLog:
    """The history of the decisions about one artifact, in a clone."""

    repository: Repository
    artifact: str

    @property
    def ref(self) -> str:
        """Name of the ref."""
        return history_ref(self.artifact)

    @property
    def tip(self) -> str | None:
        """Commit of the latest decision; ``None`` without a history."""
        return self.repository.git("for-each-ref", "--format=%(objectname)", self.ref) or None

    def entries(self) -> list[GateEntry]:
        """Return the decisions, the latest last."""
        return read_gate_history(self.repository.root, self.artifact)

    def append(self, entry: GateEntry) -> None:
        """Add a decision."""
        self._move([entry], self.tip)

    def merge(self, theirs: str) -> None:
        """Take over the decisions of ``origin``, given its last commit; what it lacks comes after them."""
        ours = self.tip
        if ours is not None and contains(self.repository, ours, theirs):
            return
        own = []
        if ours is not None:
            printed = self.repository.git("log", "--reverse", "-z", "--format=%B", f"{theirs}..{ours}")
            own = parse_messages(printed.split("\0"))
        self._move(own, theirs)

    def _move(self, entries: list[GateEntry], parent: str | None) -> None:
        """Let the ref name a chain that ends with entries, after a parent."""
        git = self.repository.git
        before = self.tip or "0" * 40
        for entry in entries:
            tree = git("mktree", text="")
            parents = ["-p", parent] if parent else []
            parent = git("commit-tree", tree, *parents, text=as_message(entry))
        if parent:
            git("update-ref", self.ref, parent, before)
