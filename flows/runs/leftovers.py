"""What runs that ended early left behind: checkouts for inspection, checkpoints to go on from, processes to end."""

import contextlib
import json
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import psutil

from flows.runs.locks import BusyError, locked
from flows.runs.processes import MARK
from flows.runs.repository import GitError, Repository

CHECKPOINTS = "checkpoints"
"""What a training saves to go on from, outside the outs (docs/architecture.md)."""
KEPT = 3
"""Checkouts of failed runs that stay."""


@dataclass(frozen=True)
class Work:
    """What a run does; two runs of the same work can go on from each other's checkpoints.

    Attributes:
        ref: As it was asked for.
        commit: What it named when the run first started.
        overrides: Parameters, as ``-S`` gives them.
    """

    ref: str
    commit: str
    overrides: tuple[str, ...] = ()

    @classmethod
    def read(cls, record: Path) -> Self:
        """What a run wrote down."""
        known = json.loads(record.read_text())
        return cls(known["ref"], known["commit"], tuple(known["overrides"]))

    def write(self, record: Path) -> None:
        """Writes it down."""
        record.write_text(json.dumps(asdict(self)))

    def is_that_of(self, other: "Work") -> bool:
        """Whether both train the same, as far as can be known before they do; the training looks more closely."""
        return self.overrides == other.overrides and (self.ref == other.ref or self.commit == other.commit)


def adopt_checkpoints(repository: Repository, path: Path, work: Work) -> str | None:
    """Moves the checkpoints of the last run that did the same and ended early into a new checkout.

    Returns:
        That run's name, if there was one.
    """
    left = [other for other in _dead(repository) if (repository.state / other / CHECKPOINTS).is_dir()]
    for other in [other for other in left if work.is_that_of(Work.read(record_of(repository, other)))][-1:]:
        shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)
        (repository.state / other / CHECKPOINTS).rename(path / CHECKPOINTS)
        return other
    return None


def prune(repository: Repository) -> None:
    """Removes the checkouts of all but the last runs that ended early."""
    for name in _dead(repository)[:-KEPT]:
        remove(repository, name)
    repository.git("worktree", "prune")


def remove(repository: Repository, name: str, *, unlock: bool = True) -> None:
    """Removes a run's checkout and record, whole or not.

    Args:
        repository: Whose.
        name: The run's.
        unlock: Whether its lock goes, too.
    """
    path = repository.state / name
    record_of(repository, name).unlink(missing_ok=True)
    with contextlib.suppress(GitError):
        repository.git("worktree", "remove", "--force", "--force", str(path))
    shutil.rmtree(path, ignore_errors=True)
    if unlock:
        (repository.state / f"{name}.lock").unlink(missing_ok=True)


def record_of(repository: Repository, name: str) -> Path:
    """Where a run writes down its work, once its checkout is whole."""
    return repository.state / f"{name}.json"


def _dead(repository: Repository) -> list[str]:
    """Runs that ended early, the latest last. What of their processes is left is ended, so that nothing writes there."""
    found = []
    for record in repository.state.glob("*.json"):
        with contextlib.suppress(BusyError, FileNotFoundError), locked(repository.state / f"{record.stem}.lock", wait=0):
            end_processes(record.stem)
            found.append(((repository.state / record.stem).stat().st_mtime, record.stem))
    return [name for _, name in sorted(found)]


def end_processes(name: str) -> None:
    """Kills what a run left behind when its flow and the guardian were both killed outright."""
    left = [process for process in psutil.process_iter() if _carries(process, name)]
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    while any(_carries(process, name) for process in left):
        time.sleep(0.02)


def _carries(process: psutil.Process, name: str) -> bool:
    with contextlib.suppress(psutil.Error):  # gone, a zombie, or somebody else's
        return bool(process.environ().get(MARK) == name)
    return False
