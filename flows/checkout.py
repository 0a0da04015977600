"""A checkout of its own for every run, so that no run sees a person's working tree or another run.

A checkout is a git worktree under ``.dvc/tmp/flows/`` that shares the repository's objects and DVC's cache. It goes away
after success, stays for inspection after a failure, and old ones are pruned. A lock held by the flow's process says
whether a run is alive: it falls with the process, however that ends.
"""

import contextlib
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from flows.locks import BusyError, locked
from flows.processes import MARK
from flows.repository import GitError, Repository, dvc_config

CHECKPOINTS = "checkpoints"
"""What a training saves to go on from, outside the outs (docs/architecture.md)."""
KEPT = 3
"""Checkouts of failed runs that stay."""
ATTEMPT_WAIT = 60.0
"""Seconds to wait for an earlier attempt of the same run: one that was cut off takes half a minute to end its processes."""


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
            _end_leftovers(name)
            checkout = _resume(repository, name, lock) or _create(repository, name, Work(ref, repository.resolve(ref), overrides), lock)
            _prune(repository)
        try:
            yield checkout
        except BaseException:
            # A folder's time changes only with its direct entries; this is what pruning goes by.
            checkout.path.touch()
            raise
        with locked(state / "checkouts.lock", wait=60):
            _remove(repository, name)


def _resume(repository: Repository, name: str, lock: int) -> Checkout | None:
    """The checkout that an earlier attempt of this run left, unless that attempt died while it was being made."""
    path, record = repository.state / name, _record(repository, name)
    if not record.exists() or not path.is_dir():
        _remove(repository, name, unlock=False)
        return None
    known = json.loads(record.read_text())
    work = Work(known["ref"], known["commit"], tuple(known["overrides"]))
    _mend_dvc_lock(repository, path)
    return Checkout(path, name, work, lock, resumed=True)


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
    adopted = _adopt_checkpoints(repository, path, work)
    _record(repository, name).write_text(json.dumps(asdict(work)))
    return Checkout(path, name, work, lock, adopted=adopted)


def _share_cache(repository: Repository, path: Path) -> None:
    """Writes the checkout's own DVC settings: those of the repository, with addresses that hold from here too."""
    from dvc.config import Config

    theirs = dvc_config(repository.root)
    local = repository.root / ".dvc" / "config.local"
    if local.exists():
        shutil.copyfile(local, path / ".dvc" / "config.local")
    with Config(dvc_dir=str(path / ".dvc")).edit("local", validate=False) as ours:
        ours.setdefault("cache", {})["dir"] = theirs["cache"].get("dir") or str(repository.root / ".dvc" / "cache")
        ours.setdefault("core", {})["check_update"] = False
        for remote, settings in theirs["remote"].items():
            ours.setdefault("remote", {}).setdefault(remote, {})["url"] = settings["url"]


def _adopt_checkpoints(repository: Repository, path: Path, work: Work) -> str | None:
    """Moves the checkpoints of the last run that did the same and ended early; the training knows whether it can use them."""
    left = [other for other in _dead(repository) if (repository.state / other / CHECKPOINTS).is_dir()]
    for other in [other for other in left if _same_work(repository, other, work)][-1:]:
        shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)
        (repository.state / other / CHECKPOINTS).rename(path / CHECKPOINTS)
        return other
    return None


def _same_work(repository: Repository, name: str, work: Work) -> bool:
    known = json.loads(_record(repository, name).read_text())
    return tuple(known["overrides"]) == work.overrides and (known["ref"] == work.ref or known["commit"] == work.commit)


def _dead(repository: Repository) -> list[str]:
    """Runs that ended early, the latest last. What of their processes is left is ended, so that nothing writes there."""
    found = []
    for record in repository.state.glob("*.json"):
        with contextlib.suppress(BusyError, FileNotFoundError), locked(repository.state / f"{record.stem}.lock", wait=0):
            _end_leftovers(record.stem)
            found.append(((repository.state / record.stem).stat().st_mtime, record.stem))
    return [name for _, name in sorted(found)]


def _prune(repository: Repository) -> None:
    for name in _dead(repository)[:-KEPT]:
        _remove(repository, name)
    repository.git("worktree", "prune")


def _remove(repository: Repository, name: str, *, unlock: bool = True) -> None:
    path = repository.state / name
    _record(repository, name).unlink(missing_ok=True)
    with contextlib.suppress(GitError):
        repository.git("worktree", "remove", "--force", "--force", str(path))
    shutil.rmtree(path, ignore_errors=True)
    if unlock:
        (repository.state / f"{name}.lock").unlink(missing_ok=True)


def _record(repository: Repository, name: str) -> Path:
    return repository.state / f"{name}.json"


def _end_leftovers(name: str) -> None:
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
