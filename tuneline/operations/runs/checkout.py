"""A checkout for every run, so that no run sees a person's working tree or another run.

A checkout is a git worktree under ``.dvc/tmp/flows/``. It is removed after success and kept for inspection
after a failure; old ones are pruned. Beside it are two files. Its record has the commit of the run; it is
written last and removed first, so what a kill has left half made has no record, and is made again. Its lock
is held by the flow's process as long as the run is alive; the operating system releases it however the
process ends. A checkout whose lock is free belongs to an abandoned run: one that failed, was cancelled or was
killed.

Nobody watches a scheduled run, so it waits for its earlier attempt. Checkpoints are in the repository's own
folder (``tuneline/core/paths.py``), so a run resumes the training of another one.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tuneline.core.repository.worktrees import add_worktree, remove_worktree, repair_worktree
from tuneline.core.runtime.files import BusyError, locked, write_json
from tuneline.core.settings import load_settings
from tuneline.operations.runs.repository import Repository

ATTEMPT_WAIT = 60.0
"""Seconds to wait for an earlier attempt of the same run.

An attempt that was interrupted takes half a minute to end its processes.
"""
CHECKOUTS_WAIT = 3600.0
"""Seconds to wait for others that hold the lock of all checkouts.

Runs hold it while they create or remove one, flow ``clean`` while it collects DVC's cache.
"""


@dataclass(frozen=True)
class Checkout:
    """An isolated working tree.

    Attributes:
        ref: The ref that was requested.
        commit: The commit that the ref named when the run first started.
        lock: File descriptor of the run's lock; the run is alive while a process holds it.
        resumed: True if an earlier attempt of the same run created it.
    """

    path: Path
    name: str
    ref: str
    commit: str
    lock: int
    resumed: bool


@contextlib.contextmanager
def isolated(repository: Repository, name: str, ref: str) -> Iterator[Checkout]:
    """Yield the checkout of a run: the one that an earlier attempt left, else a new one.

    Every attempt of a run has the same name.

    Raises:
        BusyError: Another process works in this run's checkout.
        GitError: The ref names no commit.
    """
    repository.state.mkdir(parents=True, exist_ok=True)
    checkouts_lock = repository.state / "checkouts.lock"
    path = repository.state / name
    record = repository.state / f"{name}.json"

    with locked(repository.state / f"{name}.lock", wait=ATTEMPT_WAIT) as lock:
        with locked(checkouts_lock, wait=CHECKOUTS_WAIT):
            resumed = record.exists() and path.is_dir()
            if resumed:
                spec = json.loads(record.read_bytes())
                repair_worktree(path)
            else:
                remove_worktree(repository.root, path)
                spec = {"ref": ref, "commit": repository.resolve(ref)}
                add_worktree(repository.root, path, spec["commit"])
                write_json(record, spec)
            for abandoned_name in superfluous(repository, load_settings(repository.root).retention.checkouts):
                remove_checkout(repository, abandoned_name)

        try:
            yield Checkout(path, name, spec["ref"], spec["commit"], lock, resumed)
        except BaseException:
            # Pruning goes by the folder's time, which changes only with its direct entries.
            path.touch()
            raise

        with locked(checkouts_lock, wait=CHECKOUTS_WAIT):
            remove_checkout(repository, name)


def superfluous(repository: Repository, kept: int) -> list[str]:
    """List the abandoned runs but the latest ``kept``, the latest last. Under the lock."""
    names = abandoned(repository)
    return names[: max(0, len(names) - kept)]


def active(repository: Repository) -> list[str]:
    """List the runs that have a checkout and are alive. Under the lock."""
    ended = abandoned(repository)
    return [path.name for path in _checkouts(repository) if path.name not in ended]


def remove_checkout(repository: Repository, name: str) -> None:
    """Remove a run's record, checkout, complete or not, and lock file. Under the lock."""
    (repository.state / f"{name}.json").unlink(missing_ok=True)
    remove_worktree(repository.root, repository.state / name)
    (repository.state / f"{name}.lock").unlink(missing_ok=True)


def _checkouts(repository: Repository) -> list[Path]:
    """List the folders of the runs that have a checkout, complete or not."""
    return [path.parent for path in repository.state.glob("*/.git")]


def abandoned(repository: Repository) -> list[str]:
    """List the abandoned runs, the latest last; incomplete checkouts, whose time tells nothing, are first."""
    checkouts = []
    for path in _checkouts(repository):
        with contextlib.suppress(BusyError), locked(path.with_name(f"{path.name}.lock"), wait=0):
            is_complete = path.with_name(f"{path.name}.json").exists()
            checkouts.append((is_complete, path.stat().st_mtime, path.name))
    return [name for *_, name in sorted(checkouts)]
