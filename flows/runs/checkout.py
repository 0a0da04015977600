"""A checkout for every run, so that no run sees a person's working tree or another run.

A checkout is an isolated tree under ``.dvc/tmp/flows/``. It is removed after success and kept for inspection
after a failure; old ones are pruned. The flow's process holds its lock as long as the run is alive; the
operating system releases it however the process ends. A checkout whose lock is free belongs to an abandoned
run: one that failed, was cancelled or was killed.

Nobody watches a scheduled run, so it waits for its earlier attempt, and kills what that has left. Checkpoints
are in the repository's own folder (``tuneline/paths.py``), so a run resumes the training of another one.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from pydantic import TypeAdapter, ValidationError

from flows.runs.processes import RUN_VARIABLE
from flows.runs.repository import Repository
from tuneline.core.yaml_files import read_yaml
from tuneline.repository.worktrees import IsolatedTree
from tuneline.runtime.errors import ParamsError
from tuneline.runtime.locks import BusyError, locked
from tuneline.runtime.terminal import visible
from tuneline.settings import load_settings


@dataclass(frozen=True)
class RunSpec:
    """What a run computes.

    Two runs of the same spec can resume from each other's checkpoints.

    Attributes:
        ref: The ref that was requested.
        commit: The commit that the ref named when the run first started.
        overrides: Parameters as after ``-S``.
    """

    ref: str
    commit: str
    overrides: tuple[str, ...] = ()

    def trains_same_model(self, other: "RunSpec") -> bool:
        """Return True if both train the same model, as far as the specs tell.

        The training compares its inputs itself.
        """
        return self.overrides == other.overrides and (self.ref == other.ref or self.commit == other.commit)


YAML_FILES = ("params.yaml", "dvc.yaml", "dvc.lock", "conf/*.yaml", ":(glob)**/*.dvc")
"""Files of a commit that DVC and Hydra read, as patterns of git."""
ANOTHER_DOCUMENT = "found another document"
"""Part of the YAML library's message about a file with several documents."""
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
        ParamsError: A YAML file of the commit has conflict markers or is invalid.
    """
    repository.state.mkdir(parents=True, exist_ok=True)
    checkouts_lock = repository.state / "checkouts.lock"
    tree = _tree(repository, name)

    with locked(tree.lock, wait=ATTEMPT_WAIT) as lock:
        with locked(checkouts_lock, wait=CHECKOUTS_WAIT):
            _kill_processes(name)
            _set_damaged_records_aside(repository)
            if tree.is_complete:
                tree.repair()
                spec = SPEC.validate_json(tree.record.read_bytes())
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


def _set_damaged_records_aside(repository: Repository) -> None:
    """Rename the records that cannot be read: their runs are not resumed, and stop no other run."""
    for name in _checkouts(repository):
        record = _tree(repository, name).record
        try:
            SPEC.validate_json(record.read_bytes())
        except FileNotFoundError:
            continue
        except ValidationError:
            record.replace(record.with_name(f"{record.name}.damaged"))
            repository.log(f"{record} cannot be read, so it was renamed; what it described is not resumed.")


def _create(repository: Repository, name: str, spec: RunSpec, lock: int) -> Checkout:
    tree = _tree(repository, name)
    with tree.created(spec.commit, asdict(spec)):
        _require_valid_yaml(repository, tree.path, spec)
    return Checkout(tree.path, name, spec, lock)


def _require_valid_yaml(repository: Repository, path: Path, spec: RunSpec) -> None:
    """Refuse a commit with conflict markers or invalid YAML.

    DVC and Hydra would name neither the commit nor the line.

    Raises:
        ParamsError: The message has each file and line, and the last commit that changed it.
    """
    problems = []
    for name in repository.git("ls-files", "-z", "--", *YAML_FILES, cwd=path).split("\0"):
        file = path / name
        if not file.is_file() or file.is_symlink():  # conf/params.yaml is a link to params.yaml
            continue
        try:
            read_yaml(file)
        except ParamsError as error:
            # No run reads a person's file in conf/ with several documents, for example for Kubernetes.
            if ANOTHER_DOCUMENT in error.problem and name.startswith("conf/"):
                continue
            problem = error.problem.removeprefix(f"{path}/")
            last_change = repository.git("log", "-1", "--format=%h '%s' by %an", spec.commit, "--", name)
            problems.append(f"{problem} Last changed by {last_change}.")

    if problems:
        lines = [f"Commit {spec.commit[:12]} of {spec.ref} cannot be run:", *problems]
        hint = f"Correct that in a new commit of {spec.ref}; the next run takes it."
        raise ParamsError(visible("\n  ".join(lines)), hint)


def superfluous(repository: Repository, kept: int | None) -> list[str]:
    """List the abandoned runs but the latest ``kept``, the latest last. Under the lock."""
    names = abandoned(repository)
    if kept is None:
        return []
    return names[: max(0, len(names) - kept)]


def active(repository: Repository) -> list[str]:
    """List the runs that have a checkout and are alive. Under the lock."""
    ended = abandoned(repository)
    return [name for name in _checkouts(repository) if name not in ended]


def remove_checkout(repository: Repository, name: str) -> None:
    """Remove a run's record, checkout, complete or not, and lock file. Under the lock."""
    tree = _tree(repository, name)
    tree.remove()
    tree.beside("json.damaged").unlink(missing_ok=True)
    tree.lock.unlink(missing_ok=True)


def _checkouts(repository: Repository) -> list[str]:
    """List the runs that have a checkout, complete or not."""
    return [path.parent.name for path in repository.state.glob("*/.git")]


def abandoned(repository: Repository) -> list[str]:
    """List the abandoned runs, the latest last; incomplete checkouts, whose time tells nothing, are first.

    Their remaining processes are killed first, so that nothing writes there.
    """
    checkouts = []
    for name in _checkouts(repository):
        tree = _tree(repository, name)
        with contextlib.suppress(BusyError, FileNotFoundError), locked(tree.lock, wait=0):
            _kill_processes(name)
            checkouts.append((tree.record.exists(), tree.path.stat().st_mtime, name))
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
