"""A checkout of its own for every run, so that no run sees a person's working tree or another run.

A checkout is a git worktree under ``.dvc/tmp/flows/`` that shares the repository's objects and DVC's cache. It goes away
after success, stays for inspection after a failure, and old ones are pruned. A lock held by the flow's process says
whether a run is alive: it falls with the process, however that ends.
"""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from flows.runs.leftovers import Work, adopt_checkpoints, end_processes, prune, record_of, remove
from flows.runs.locks import locked
from flows.runs.repository import GitError, Repository, dvc_config

ATTEMPT_WAIT = 60.0
"""Seconds to wait for an earlier attempt of the same run: one that was cut off takes half a minute to end its processes."""


@dataclass(frozen=True)
class Checkout:
    """An isolated working tree.

    Attributes:
        path: Its root.
        name: The run's name.
        work: What is done in it.
        lock: File descriptor of the run's lock; the run is alive while a process holds it.
        resumed: Whether an earlier attempt of the same run began it.
        adopted: The run whose checkpoints were taken over, if any.
    """

    path: Path
    name: str
    work: Work
    lock: int
    resumed: bool = False
    adopted: str | None = None


@contextlib.contextmanager
def isolated(repository: Repository, name: str, ref: str, overrides: tuple[str, ...] = ()) -> Iterator[Checkout]:
    """Gives a run its checkout: the one that an earlier attempt of it left, else a new one.

    Args:
        repository: What to check out from.
        name: The run's name; another attempt of the same run comes back under it.
        ref: Branch, tag or commit.
        overrides: Parameters, for the record.

    Raises:
        BusyError: Another process works in this run's checkout.
        GitError: The ref names no commit.
    """
    state = repository.state
    state.mkdir(parents=True, exist_ok=True)
    with locked(state / f"{name}.lock", wait=ATTEMPT_WAIT) as lock:
        with locked(state / "checkouts.lock", wait=60):
            end_processes(name)
            checkout = _resume(repository, name, lock) or _create(repository, name, Work(ref, repository.resolve(ref), overrides), lock)
            prune(repository)
        try:
            yield checkout
        except BaseException:
            # A folder's time changes only with its direct entries; this is what pruning goes by.
            checkout.path.touch()
            raise
        with locked(state / "checkouts.lock", wait=60):
            remove(repository, name)


def _resume(repository: Repository, name: str, lock: int) -> Checkout | None:
    """The checkout that an earlier attempt of this run left, unless that attempt died while it was being made."""
    path, record = repository.state / name, record_of(repository, name)
    if not record.exists() or not path.is_dir():
        remove(repository, name, unlock=False)
        return None
    _mend_dvc_lock(repository, path)
    return Checkout(path, name, Work.read(record), lock, resumed=True)


def _mend_dvc_lock(repository: Repository, path: Path) -> None:
    """DVC writes its lock file in place. The committed one is better than half of one: what was made is in the run cache."""
    try:
        YAML(typ="safe", pure=True).load(path / "dvc.lock")
    except FileNotFoundError:
        return
    except YAMLError:
        (path / "dvc.lock").unlink()
        with contextlib.suppress(GitError):  # it may not be committed yet
            repository.git("checkout", "--", "dvc.lock", cwd=path)


def _create(repository: Repository, name: str, work: Work, lock: int) -> Checkout:
    path = repository.state / name
    repository.git("worktree", "add", "--quiet", "--force", "--detach", str(path), work.commit)
    _share_cache(repository, path)
    adopted = adopt_checkpoints(repository, path, work)
    work.write(record_of(repository, name))
    return Checkout(path, name, work, lock, adopted=adopted)


def _share_cache(repository: Repository, path: Path) -> None:
    """Writes the checkout's own DVC settings: those of the repository, with addresses that hold from here too."""
    from dvc.config import Config

    theirs = dvc_config(repository.root)
    local = repository.root / ".dvc" / "config.local"
    if local.exists():
        shutil.copy(local, path / ".dvc" / "config.local")
    with Config(dvc_dir=str(path / ".dvc")).edit("local", validate=False) as ours:
        ours.setdefault("cache", {})["dir"] = theirs["cache"].get("dir") or str(repository.root / ".dvc" / "cache")
        ours.setdefault("core", {})["check_update"] = False
        for remote, settings in theirs["remote"].items():
            ours.setdefault("remote", {}).setdefault(remote, {})["url"] = settings["url"]
