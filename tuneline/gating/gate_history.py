"""The history of the gate in git: every decision about a candidate, in the order in which they were made.

It is a chain of commits behind ``refs/tuneline/gate/ARTIFACT``, one for each decision, whose message ends
with the entry as one line of JSON: ``git log refs/tuneline/gate/onnx`` prints it. It outlives the branches of
the runs, and is pushed with them, so that all machines use up one budget. ``flows/promotion/registry.py``
writes it.
"""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from tuneline.gating.error_budget import GateEntry
from tuneline.repository.git import git


def history_ref(artifact: str) -> str:
    """Return the name of the ref with the history of an artifact."""
    return f"refs/tuneline/gate/{artifact}"


def read_gate_history(root: Path, artifact: str) -> list[GateEntry]:
    """Return the decisions about candidates of an artifact, the latest last; none without a history."""
    options = ("--reverse", "--topo-order", "-z", "--format=%B")
    return parse_messages(git(root, "log", *options, history_ref(artifact), "--").split("\0"))


def parse_messages(messages: Sequence[str]) -> list[GateEntry]:
    """Return the entries in the messages of commits; one that cannot be read is left out."""
    entries = []
    for message in messages:
        line = message.strip().rpartition("\n")[2]
        try:
            entries.append(GateEntry.model_validate_json(line))
        except ValidationError:
            continue
    return entries


def as_message(entry: GateEntry) -> str:
    """Return the message of the commit of an entry."""
    subject = (
        f"{entry.outcome.capitalize()}: candidate {entry.number} on split {entry.split}"
        f" {entry.rows_hash[:12]}, compared with {entry.production}"
    )
    return f"{subject}\n\n{entry.model_dump_json()}"
