"""A checkout for every run, so that no run sees a person's working tree or another run.

A checkout is a git worktree under ``.dvc/tmp/flows/`` that shares the repository's objects and DVC's cache.
It is removed after success and kept for inspection after a failure; old ones are pruned. The flow's process
holds a lock as long as the run is alive; the operating system releases it however the process ends. A
checkout whose lock is free belongs to an abandoned run: one that failed, was cancelled or was killed.
"""

import contextlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from pydantic import TypeAdapter, ValidationError

from flows.runs.processes import RUN_VARIABLE
from flows.runs.repository import Repository
from flows.settings import load_settings
from tuneline.core.atomic_files import write_json
from tuneline.core.disk_errors import explain_disk_errors
from tuneline.core.errors import ParamsError
from tuneline.core.locks import BusyError, locked
from tuneline.core.paths import CHECKPOINTS
from tuneline.core.terminal import visible
from tuneline.core.yaml_files import read_yaml
from tuneline.project.worktrees import add_worktree, remove_worktree, repair_lock


@dataclass(frozen=True)
class RunSpec:
    """What a run computes: the ref that was requested, the commit it named when the run first started, and overrides as after ``-S``.

    Two runs of the same spec can resume from each other's checkpoints.
    """

    ref: str
    commit: str
    overrides: tuple[str, ...] = ()

    def trains_same_model(self, other: "RunSpec") -> bool:
        """Return True if both train the same model, as far as the specs tell; the training compares its inputs itself."""
        return self.overrides == other.overrides and (self.ref == other.ref or self.commit == other.commit)


YAML_FILES = ("params.yaml", "dvc.yaml", "dvc.lock", "conf/*.yaml", ":(glob)**/*.dvc")
"""Files of a commit that DVC and Hydra read, as patterns of git."""
ANOTHER_DOCUMENT = "found another document"
"""Part of the YAML library's message about a file with several documents."""
SPEC = TypeAdapter(RunSpec)
"""Reads a spec from the JSON of its fields."""
ATTEMPT_WAIT = 60.0
"""Seconds to wait for an earlier attempt of the same run: one that was interrupted takes half a minute to end its processes."""
CHECKOUTS_WAIT = 3600.0
"""Seconds to wait for other runs that create or remove checkouts, and for flow ``clean`` while it collects DVC's cache."""


@dataclass(frozen=True)
class Checkout:
    """An isolated working tree.

    Attributes:
        lock: File descriptor of the run's lock; the run is alive while a process holds it.
        resumed: True if an earlier attempt of the same run created it.
        adopted: The abandoned run whose checkpoints were taken over, if any.
    """

    path: Path
    name: str
    spec: RunSpec
    lock: int
    resumed: bool = False
    adopted: str | None = None


@contextlib.contextmanager
def isolated(
    repository: Repository, name: str, ref: str, overrides: tuple[str, ...] = (), *, trains: bool = True
) -> Iterator[Checkout]:
    """Yield the checkout of a run: the one that an earlier attempt left, else a new one.

    Every attempt of a run has the same name. With ``trains``, a new one takes over the checkpoints of an
    abandoned run of the same spec.

    Raises:
        BusyError: Another process works in this run's checkout.
        GitError: The ref names no commit.
        ParamsError: A YAML file of the commit has conflict markers or is invalid.
    """
    state = repository.state
    state.mkdir(parents=True, exist_ok=True)
    with locked(state / f"{name}.lock", wait=ATTEMPT_WAIT) as lock:
        with locked(state / "checkouts.lock", wait=CHECKOUTS_WAIT):
            _kill_processes(name)
            _set_damaged_records_aside(repository)
            checkout = _resume(repository, name, lock)
            checkout = checkout or _create(
                repository, name, RunSpec(ref, repository.resolve(ref), overrides), lock, trains=trains
            )
            for old in superfluous(repository, load_settings(repository.root).retention.checkouts):
                remove_checkout(repository, old)
            repository.git("worktree", "prune")
        try:
            yield checkout
        except BaseException:
            # Pruning goes by the folder's time, which changes only with its direct entries.
            checkout.path.touch()
            raise
        with locked(state / "checkouts.lock", wait=CHECKOUTS_WAIT):
            remove_checkout(repository, name)


def _set_damaged_records_aside(repository: Repository) -> None:
    """Rename the records that cannot be read: their runs are not resumed, and stop no other run."""
    for record in (_record(repository, name) for name in _checkouts(repository)):
        try:
            SPEC.validate_json(record.read_bytes())
        except FileNotFoundError:
            continue
        except ValidationError:
            record.replace(record.with_name(f"{record.name}.damaged"))
            repository.log(f"{record} cannot be read, so it was renamed; what it described is not resumed.")


def _resume(repository: Repository, name: str, lock: int) -> Checkout | None:
    """Return the checkout of an earlier attempt; ``None`` if there is none, or that attempt died while creating it."""
    path, record = repository.state / name, _record(repository, name)
    if not record.exists() or not path.is_dir():
        remove_checkout(repository, name, unlock=False)
        return None
    repair_lock(path)
    return Checkout(path, name, SPEC.validate_json(record.read_bytes()), lock, resumed=True)


def _create(repository: Repository, name: str, spec: RunSpec, lock: int, *, trains: bool) -> Checkout:
    path = repository.state / name
    try:
        with explain_disk_errors(path):
            add_worktree(repository.root, path, spec.commit)
            _require_valid_yaml(repository, path, spec)
            write_json(_record(repository, name), asdict(spec))  # only a complete checkout has a record
            # last: what is removed below has none that another run left
            adopted = _adopt_checkpoints(repository, path, spec) if trains else None
    except BaseException:
        remove_checkout(repository, name, unlock=False)
        raise
    return Checkout(path, name, spec, lock, adopted=adopted)


def _require_valid_yaml(repository: Repository, path: Path, spec: RunSpec) -> None:
    """Refuse a commit with conflict markers or invalid YAML: DVC and Hydra name neither the commit nor the line.

    Raises:
        ParamsError: The message has each file and line, and the last commit that changed it.
    """
    problems = []
    for file in repository.git("ls-files", "-z", "--", *YAML_FILES, cwd=path).split("\0"):
        if (
            not (path / file).is_file() or (path / file).is_symlink()
        ):  # conf/params.yaml is a link to params.yaml
            continue
        try:
            read_yaml(path / file)
        except ParamsError as error:
            # A person's file in conf/, for example for Kubernetes, may have several documents. No run reads
            # it.
            if ANOTHER_DOCUMENT in error.problem and file.startswith("conf/"):
                continue
            last_change = repository.git("log", "-1", "--format=%h '%s' by %an", spec.commit, "--", file)
            problems.append(f"{error.problem.removeprefix(f'{path}/')} Last changed by {last_change}.")
    if problems:
        listed = "\n  ".join([f"Commit {spec.commit[:12]} of {spec.ref} cannot be run:", *problems])
        raise ParamsError(
            visible(listed), f"Correct that in a new commit of {spec.ref}; the next run takes it."
        )


def _adopt_checkpoints(repository: Repository, path: Path, spec: RunSpec) -> str | None:
    """Move the checkpoints of the latest abandoned run of the same spec into a new checkout, and return that run's name."""
    records = {name: _record(repository, name) for name in abandoned(repository)}
    specs = {
        name: SPEC.validate_json(record.read_bytes()) for name, record in records.items() if record.exists()
    }
    with_checkpoints = [name for name in specs if (repository.state / name / CHECKPOINTS).is_dir()]
    for name in [name for name in with_checkpoints if spec.trains_same_model(specs[name])][-1:]:
        shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)
        (repository.state / name / CHECKPOINTS).rename(path / CHECKPOINTS)
        return name
    return None


def superfluous(repository: Repository, kept: int | None) -> list[str]:
    """List the abandoned runs but the latest ``kept``, the latest last. Under the lock."""
    names = abandoned(repository)
    return [] if kept is None else names[: max(0, len(names) - kept)]


def active(repository: Repository) -> list[str]:
    """List the runs that have a checkout and are alive. Under the lock."""
    over = abandoned(repository)
    return [name for name in _checkouts(repository) if name not in over]


def remove_checkout(repository: Repository, name: str, *, unlock: bool = True) -> None:
    """Remove a run's record and checkout, complete or not, and its lock file if ``unlock``.

    Under the lock.
    """
    path = repository.state / name
    _record(repository, name).unlink(missing_ok=True)
    remove_worktree(repository.root, path)
    if unlock:
        for suffix in ("json.damaged", "lock"):
            (repository.state / f"{name}.{suffix}").unlink(missing_ok=True)


def _record(repository: Repository, name: str) -> Path:
    """Return the path of a run's spec; it exists once the checkout is complete."""
    return repository.state / f"{name}.json"


def _checkouts(repository: Repository) -> list[str]:
    """List the runs that have a checkout, complete or not."""
    return [path.parent.name for path in repository.state.glob("*/.git")]


def abandoned(repository: Repository) -> list[str]:
    """List the abandoned runs, the latest last; incomplete checkouts, whose time tells nothing, are first.

    Their remaining processes are killed first, so that nothing writes there.
    """
    checkouts = []
    for name in _checkouts(repository):
        with (
            contextlib.suppress(BusyError, FileNotFoundError),
            locked(repository.state / f"{name}.lock", wait=0),
        ):
            _kill_processes(name)
            checkouts.append(
                (_record(repository, name).exists(), (repository.state / name).stat().st_mtime, name)
            )
    return [name for *_, name in sorted(checkouts)]


def _kill_processes(name: str) -> None:
    """Kill the processes of a run whose flow was killed, and the supervisor of its program as well."""
    remaining = [process for process in psutil.process_iter() if _belongs_to(process, name)]
    for process in remaining:
        with contextlib.suppress(psutil.Error):
            process.kill()
    while any(_belongs_to(process, name) for process in remaining):
        time.sleep(0.02)


def _belongs_to(process: psutil.Process, name: str) -> bool:
    with contextlib.suppress(psutil.Error):  # ended, a zombie, or another user's
        return bool(process.environ().get(RUN_VARIABLE) == name)
    return False
