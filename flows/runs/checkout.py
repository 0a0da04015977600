"""A checkout for every run, so that no run sees a person's working tree or another run.

A checkout is an isolated tree under ``.dvc/tmp/flows/``. It is removed after success and kept for inspection
after a failure; old ones are pruned. The flow's process holds its lock as long as the run is alive; the
operating system releases it however the process ends. A checkout whose lock is free belongs to an abandoned
run: one that failed, was cancelled or was killed.

Nobody watches a scheduled run, so it waits for its earlier attempt. Checkpoints are in the repository's own
folder (``tuneline/paths.py``), so a run resumes the training of another one.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from flows.runs.repository import Repository
from tuneline.repository.worktrees import IsolatedTree
from tuneline.runtime.locks import BusyError, locked
from tuneline.settings import load_settings


@dataclass(frozen=True)
class RunSpec:
    """What a run computes.

    Attributes:
        ref: The ref that was requested.
        commit: The commit that the ref named when the run first started.
        overrides: Parameters as after ``-S``.
    """

    ref: str
    commit: str
    overrides: tuple[str, ...] = ()


SPEC = TypeAdapter(RunSpec)
"""Reads a spec from the JSON of its fields."""
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
        lock: File descriptor of the run's lock; the run is alive while a process holds it.
        resumed: True if an earlier attempt of the same run created it.
    """

    path: Path
    name: str
    spec: RunSpec
    lock: int
    resumed: bool = False


@contextlib.contextmanager
def isolated(
    repository: Repository, name: str, ref: str, overrides: tuple[str, ...] = ()
) -> Iterator[Checkout]:
    """Yield the checkout of a run: the one that an earlier attempt left, else a new one.

    Every attempt of a run has the same name.

    Raises:
        BusyError: Another process works in this run's checkout.
        GitError: The ref names no commit.
    """
    repository.state.mkdir(parents=True, exist_ok=True)
    checkouts_lock = repository.state / "checkouts.lock"
    tree = _tree(repository, name)

    with locked(tree.lock, wait=ATTEMPT_WAIT) as lock:
        with locked(checkouts_lock, wait=CHECKOUTS_WAIT):
            spec = _spec(tree)
            if spec is not None:
                tree.repair()
                checkout = Checkout(tree.path, name, spec, lock, resumed=True)
            else:
                tree.remove()
                spec = RunSpec(ref, repository.resolve(ref), overrides)
                checkout = _create(repository, name, spec, lock)
            for abandoned_name in superfluous(repository, load_settings(repository.root).retention.checkouts):
                remove_checkout(repository, abandoned_name)

        try:
            yield checkout
        except BaseException:
            # Pruning goes by the folder's time, which changes only with its direct entries.
            checkout.path.touch()
            raise

        with locked(checkouts_lock, wait=CHECKOUTS_WAIT):
            remove_checkout(repository, name)


def _tree(repository: Repository, name: str) -> IsolatedTree:
    return IsolatedTree(repository.root, repository.state / name)


def _spec(tree: IsolatedTree) -> RunSpec | None:
    """Return what a tree is for; ``None`` if it is incomplete, or its record cannot be read."""
    try:
        return SPEC.validate_json(tree.record.read_bytes()) if tree.is_complete else None
    except ValidationError:
        return None


def _create(repository: Repository, name: str, spec: RunSpec, lock: int) -> Checkout:
    tree = _tree(repository, name)
    with tree.created(spec.commit, asdict(spec)):
        pass

    return Checkout(tree.path, name, spec, lock)


def superfluous(repository: Repository, kept: int) -> list[str]:
    """List the abandoned runs but the latest ``kept``, the latest last. Under the lock."""
    names = abandoned(repository)
    return names[: max(0, len(names) - kept)]


def active(repository: Repository) -> list[str]:
    """List the runs that have a checkout and are alive. Under the lock."""
    ended = abandoned(repository)
    return [name for name in _checkouts(repository) if name not in ended]


def remove_checkout(repository: Repository, name: str) -> None:
    """Remove a run's record, checkout, complete or not, and lock file. Under the lock."""
    tree = _tree(repository, name)
    tree.remove()
    tree.lock.unlink(missing_ok=True)


def _checkouts(repository: Repository) -> list[str]:
    """List the runs that have a checkout, complete or not."""
    return [path.parent.name for path in repository.state.glob("*/.git")]


def abandoned(repository: Repository) -> list[str]:
    """List the abandoned runs, the latest last; incomplete checkouts, whose time tells nothing, are first."""
    checkouts = []
    for name in _checkouts(repository):
        tree = _tree(repository, name)
        with contextlib.suppress(BusyError, FileNotFoundError), locked(tree.lock, wait=0):
            checkouts.append((tree.record.exists(), tree.path.stat().st_mtime, name))
    return [name for *_, name in sorted(checkouts)]
