"""Flow ``clean``: removes what runs leave behind and nobody needs any more, as ``retention`` in ``conf/flows.yaml`` says.

Kind by kind: branches, checkouts, models, refused batches, scored files, leftovers, and at last DVC's cache.
Every step can be killed and run again. What a live run uses stays. Prefect's server removes its own old runs
(flows/server/api.py).
"""

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.client.schemas import State

from flows.alerts import ended
from flows.inbox import Incoming, RefusedRecord
from flows.ingestion.ledger import REFUSED_BATCHES
from flows.promotion.judgements import Judgements
from flows.promotion.production import MODELS
from flows.promotion.registry import Registry
from flows.promotion.unpushed import unpushed_results
from flows.runs.checkout import CHECKOUTS_WAIT, abandoned, active, remove_checkout, superfluous
from flows.runs.commits import RUN_TRAILER
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import Repository
from flows.server.worker import end_with_worker
from tuneline.core.locks import BusyError, locked
from tuneline.core.paths import CHECKPOINTS
from tuneline.core.records import Record
from tuneline.core.resumable import RESUMABLE
from tuneline.project.dvc import cache_folder
from tuneline.project.garbage import BUSY
from tuneline.project.scored import scored_record
from tuneline.settings import Retention, Scoring, Settings, load_settings

DAY = 86400.0
EXAMPLES = 3
"""Names in a row of the table; the log has all."""


@dataclass(frozen=True)
class Cleaning:
    """One cleaning of the registry's clone at a Unix time; with ``push``, branches of ``origin`` are removed, too."""

    registry: Registry
    retention: Retention
    now: float
    log: Callable[[str], None]
    dry_run: bool = False
    push: bool = False

    @property
    def repository(self) -> Repository:
        """The clone."""
        return self.registry.repository

    def before(self, days: float | None) -> float:
        """Return the Unix time that is so many days ago; what is older goes.

        Minus infinity to keep for ever.
        """
        return float("-inf") if days is None else self.now - days * DAY


@dataclass(frozen=True)
class Removed:
    """What is removed of one kind: its names, else its number.

    The note says what is left although it is old, or other facts.
    """

    what: str
    names: Sequence[str] = ()
    bytes: int = 0
    note: str = ""
    count: int | None = None

    @property
    def number(self) -> int:
        """How many are removed."""
        return len(self.names) if self.count is None else self.count

    def as_cells(self) -> dict[str, Any]:
        """Return the row of the table in Prefect's UI, with a few names."""
        more = self.number - EXAMPLES
        names = [*self.names[:EXAMPLES], *([f"and {more} more"] if self.names and more > 0 else [])]
        details = "; ".join(filter(None, (", ".join(names), self.note)))
        return {"what": self.what, "number": self.number, "MB": f"{self.bytes / 1e6:.1f}", "": details}

    def __str__(self) -> str:
        """Return the row for a log: with all names."""
        text = f"{self.what}: {self.number}, {self.bytes / 1e6:.1f} MB"
        return "; ".join(filter(None, (text, ", ".join(self.names), self.note)))


def removal_summary(rows: Sequence[Removed]) -> str:
    """Return the rows in one line, for the state of a run."""
    parts = [f"{row.number} {row.what}" for row in rows if row.number]
    notes = [f"{row.what}: {row.note}" for row in rows if row.note]
    return "; ".join(
        [f"{sum(row.bytes for row in rows) / 1e6:.1f} MB: {', '.join(parts) or 'nothing'}", *notes]
    )


def freed_size(paths: Iterable[Path]) -> int:
    """Return the bytes that removing files and folders frees; links to a file that stays are not counted."""
    files = (file for path in paths for file in ([path] if path.is_file() else path.rglob("*")))
    found = (file.lstat() for file in files if not file.is_dir() or file.is_symlink())
    return sum(status.st_size for status in found if status.st_nlink == 1)


CLEANED = "cleaned.json"
"""Name of the record of the last cleaning, in the folder of states."""
PAUSE = 30.0
"""Days without a cleaning that need no explanation: a machine is switched off at times."""


class Cleaned(Record):
    """The Unix time of the last cleaning."""

    time: float


def clock_problem(cleaning: Cleaning) -> str | None:
    """Return why the clock may be ahead; ``None`` if the last cleaning, or before the first one the newest commit, is recent.

    A clock that is months ahead makes every result old. Only cleanings tell: other runs have dated their
    results by that clock before the next cleaning begins.
    """
    retention = cleaning.retention
    limits = [
        days
        for days in (retention.branch_days, retention.scored_days, retention.refused_days)
        if days is not None
    ]
    if not limits:
        return None
    limit = max(PAUSE, min(limits))

    if cleaned := Cleaned.read_if_valid(cleaning.repository.state / CLEANED):
        last, what = cleaned.time, "the last cleaning"
    else:
        newest = cleaning.repository.git(
            "for-each-ref", "--sort=-creatordate", "--count=1", "--format=%(creatordate:unix)"
        )
        last, what = float(newest or cleaning.now), "the newest commit"
    days = (cleaning.now - last) / DAY
    if days <= limit:
        return None

    clock = (
        f"The clock of this machine says {_date(cleaning.now)}, {days:.0f} days after {what} ({_date(last)})."
    )
    remedy = (
        "If it is right, because no cleaning ran for so long, start this flow once with --param"
        " clock_is_right=true."
    )
    return f"{clock} If that is wrong, correct it. {remedy}"


def _date(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(moment))


_RUN = f"%(contents:trailers:key={RUN_TRAILER},valueonly,separator=%2C)"
_LINE = "%1f".join(["%(objectname)", "%(committerdate:unix)", "%(worktreepath)", _RUN, "%(refname)"])
LOCK_WAIT = 900.0
"""Seconds to wait for a promotion."""


def clean_branches(cleaning: Cleaning) -> Removed:
    """Remove the branches of old results: with ``push``, from ``origin`` first, so that a failure leaves them for the next time."""
    repository, what = cleaning.repository, "branches runs/*"
    if cleaning.retention.branch_days is None:
        return Removed(what)
    with cleaning.registry.locked(LOCK_WAIT):
        needed = _needed(cleaning)
        here = _old(cleaning, "refs/heads/", needed)
        there: dict[str, str] = {}
        if cleaning.push and repository.has_remote():
            repository.transfer(
                "fetch", "--prune", "--no-tags", "origin", "+refs/heads/runs/*:refs/remotes/origin/runs/*"
            )
            there = _old(cleaning, "refs/remotes/origin/", needed)
        if there and not cleaning.dry_run:
            leases = (f"--force-with-lease=refs/heads/{name}:{commit}" for name, commit in there.items())
            repository.transfer(
                "push", "--quiet", *leases, "origin", *(f":refs/heads/{name}" for name in there)
            )
        if here and not cleaning.dry_run:
            # In one transaction, and only if they still are at these commits.
            repository.git(
                "update-ref",
                "--stdin",
                text="".join(f"delete refs/heads/{name} {commit}\n" for name, commit in here.items()),
            )
    return Removed(what, [*here], note=f"{len(there)} in origin" if there else "")


def _needed(cleaning: Cleaning) -> set[str]:
    """Return the commits whose branches stay: those in a stage, results that a run came to again not long ago, and those not pushed yet."""
    tags = cleaning.registry.tags()
    in_stages = {version.commit for version in tags.staged}
    committed = [
        unpushed_result.committed(cleaning.repository)
        for unpushed_result in unpushed_results(cleaning.repository)
    ]
    unpushed = {result.commit for result in committed if result}
    return (
        in_stages
        | unpushed
        | Judgements(cleaning.repository).commits_since(cleaning.before(cleaning.retention.branch_days))
    )


def _old(cleaning: Cleaning, prefix: str, needed: set[str]) -> dict[str, str]:
    """Return the commits of old branches that runs made, nobody has committed to, and nobody has checked out: by name from ``runs/`` on."""
    before, found = cleaning.before(cleaning.retention.branch_days), {}
    for line in cleaning.repository.git("for-each-ref", f"--format={_LINE}", f"{prefix}runs/").splitlines():
        commit, date, worktree, run, ref = line.split("\x1f")
        if run and not worktree and float(date) < before and commit not in needed:
            found[ref.removeprefix(prefix)] = commit
    return found


def clean_checkouts(cleaning: Cleaning) -> tuple[Removed, Removed]:
    """Remove the checkouts of failed runs that are too many or too old, and the checkpoints of other failed runs; none of a live run."""
    repository, retention = cleaning.repository, cleaning.retention
    with locked(repository.state / "checkouts.lock", wait=CHECKOUTS_WAIT):
        names = abandoned(repository)
        ended = {name: (repository.state / name).stat().st_mtime for name in names}
        many = superfluous(repository, retention.checkouts)
        old = [
            name for name in names if name in many or ended[name] < cleaning.before(retention.checkout_days)
        ]
        with_checkpoints = [
            name for name in names if name not in old and (repository.state / name / CHECKPOINTS).is_dir()
        ]
        resumable = [
            name for name in with_checkpoints if ended[name] < cleaning.before(retention.checkpoint_days)
        ]
        checkpoints = [repository.state / name / CHECKPOINTS for name in resumable]
        rows = (
            Removed("checkouts of failed runs", old, freed_size(repository.state / name for name in old)),
            Removed("checkpoints of failed runs", resumable, freed_size(checkpoints)),
        )
        if not cleaning.dry_run:
            for folder in checkpoints:
                checkout, times = folder.parent, folder.parent.stat()
                _discard(folder, checkout.with_name(f".{checkout.name}.checkpoints.former"))
                os.utime(checkout, ns=(times.st_atime_ns, times.st_mtime_ns))  # pruning goes by its time
            for name in old:
                remove_checkout(repository, name)
    return rows


def _discard(folder: Path, former: Path) -> None:
    """Remove a folder under another name: if this is killed, nobody takes a part of it for the whole, and the next cleaning finds it."""
    shutil.rmtree(former, ignore_errors=True)
    folder.rename(former)
    shutil.rmtree(former, ignore_errors=True)


def clean_models(cleaning: Cleaning) -> Removed:
    """Remove fetched models but those that were used last; the cache or the DVC remote has them."""
    folder, kept = cleaning.repository.state / MODELS, cleaning.retention.models
    if kept is None or not folder.is_dir():
        return Removed("fetched models")
    with locked(folder / ".lock", wait=600):
        models = sorted(folder.glob("[!.]*/"), key=lambda path: path.stat().st_mtime)
        return _discard_all(cleaning, "fetched models", models[: max(0, len(models) - kept)])


def clean_refused_batches(cleaning: Cleaning) -> Removed:
    """Remove batches that flow ``ingest`` set aside long ago, with the reports of their checks."""
    folders = (cleaning.repository.state / REFUSED_BATCHES).glob("[!.]*/")
    return _discard_all(
        cleaning, "refused batches", _older(folders, cleaning.before(cleaning.retention.refused_days))
    )


def _discard_all(cleaning: Cleaning, what: str, folders: Sequence[Path]) -> Removed:
    row = Removed(what, [path.name for path in folders], freed_size(folders))
    for path in () if cleaning.dry_run else folders:
        _discard(path, path.with_name(f".{path.name}.former"))
    return row


_RUN_NAME = re.compile(r"(?P<run>.+-[0-9a-f]{8})(\.lock|\.json|\.json\.damaged)?")
"""Names of what a run has in the folder of states."""
OUTS = ("data", "models", "reports")
"""Folders with outs of stages that a killed process can leave for the next one (``tuneline/core/resumable.py``)."""
RESUMABLE_DAYS = 7
"""Days without a new file after which what a killed stage left is not waited for any more."""


def clean_scored(cleaning: Cleaning, scoring: Scoring, wait: float = 600) -> tuple[Removed, Removed]:
    """Remove old scored files, and inputs whose last scored file goes; and old records of refused files.

    The folder of scored files is the only record of what was scored, so what is still in the inbox keeps its
    result.
    """
    root, retention = cleaning.repository.root, cleaning.retention
    what = ("scored files", "records of refused files")
    with suppress(BusyError), locked(cleaning.repository.state / "scoring.lock", wait):
        waiting = {file.name for path in (root / scoring.inbox).glob("*") if (file := Incoming.find(path))}
        scored = {
            path: record
            for path in (root / scoring.outbox).glob("[!.]*.parquet")
            if (record := scored_record(path))
        }
        old = [
            path
            for path in _older(scored, cleaning.before(retention.scored_days))
            if scored[path].path not in waiting
        ]
        needed = {scored[path].archived for path in scored if path not in old}
        inputs = {scored[path].archived for path in old} - needed - {None}
        archived = [
            path
            for name in sorted(map(str, inputs))
            if scoring.archive and (path := _inside(root / scoring.archive, root / name))
        ]
        records = (
            (path, RefusedRecord.read_if_valid(path))
            for path in (root / scoring.outbox).glob("[!.]*.error.json")
        )
        errors = {path: reason for path, reason in records if reason}
        refused = [
            path
            for path in _older(errors, cleaning.before(retention.refused_days))
            if errors[path].path not in waiting
        ]
        names = [path.name for path in old]
        note = f"with {len(archived)} archived inputs" if archived else ""
        rows = (
            Removed(what[0], names, freed_size([*old, *archived]), note),
            Removed(what[1], [path.name for path in refused], freed_size(refused)),
        )
        for path in (
            () if cleaning.dry_run else (*archived, *old, *refused)
        ):  # a result without its input goes next time
            path.unlink(missing_ok=True)
        return rows
    return Removed(what[0], note="left: files are being scored"), Removed(what[1])


def _older(paths: Iterable[Path], before: float) -> list[Path]:
    return sorted(path for path in paths if path.stat().st_mtime < before)


def _inside(archive: Path, path: Path) -> Path | None:
    """Return an archived input; ``None`` if it is gone, or the record names something that is not in the archive."""
    path = path.resolve()
    return path if path.is_file() and path.is_relative_to(archive.resolve()) else None


def clean_leftovers(cleaning: Cleaning, scoring: Scoring) -> Removed:
    """Remove what killed programs left: partial files and folders, what no stage has resumed for a week, old parts of runs."""
    repository, state = cleaning.repository, cleaning.repository.state
    before = cleaning.before(1)
    folders = [state, state / MODELS, state / REFUSED_BATCHES, repository.root / scoring.outbox]
    left = [
        path
        for folder in folders
        for path in folder.glob(".*")
        if path.suffix in {".partial", ".former"} and _is_free(path)
    ]
    week = cleaning.before(RESUMABLE_DAYS)
    resumable = [
        path
        for folder in OUTS
        for path in (repository.root / folder).glob(f".*{RESUMABLE}")
        if _newest(path) < week
    ]
    left += [path for path in resumable if _is_free(path)]
    with locked(state / "checkouts.lock", wait=CHECKOUTS_WAIT):
        runs: dict[str, list[Path]] = {}
        for path in state.iterdir():
            if match := _RUN_NAME.fullmatch(path.name):
                runs.setdefault(match["run"], []).append(path)
        gone = {run: paths for run, paths in runs.items() if not (state / run / ".git").exists()}
        gone = {
            run: paths for run, paths in gone.items() if all(path.stat().st_mtime < before for path in paths)
        }
        locks = {run: state / f"{run}.lock" for run in gone}
        free = [
            path
            for run, paths in gone.items()
            if not locks[run].exists() or _is_free(locks[run])
            for path in paths
        ]
        row = Removed(
            "leftovers of killed programs", [path.name for path in (*left, *free)], freed_size([*left, *free])
        )
        for path in () if cleaning.dry_run else [*left, *free]:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    return row


def _newest(folder: Path) -> float:
    return max((path.stat().st_mtime for path in (folder, *folder.rglob("*"))), default=0.0)


def _is_free(path: Path) -> bool:
    """Return True if no process holds a lock: that of a run, or the one on what its writer has not completed (``core/atomic_files.py``)."""
    with suppress(OSError, BusyError), locked(path, wait=0, create=False):
        return True
    return False


POLL = 20.0
"""Seconds between two looks whether the cache is in use."""


def clean_cache(cleaning: Cleaning, removed: Collection[str]) -> Removed:
    """Remove the objects that nothing names.

    Runs store and restore objects before a commit names them, so this waits until none is active, and holds
    the lock without which none starts. Branches and checkouts in ``removed`` count as removed: a dry run has
    not removed them.
    """
    repository, retention = cleaning.repository, cleaning.retention
    if retention.cache_days is None:
        return Removed("objects of DVC's cache")
    if not retention.own_cache and not (folder := cache_folder(repository.root).resolve()).is_relative_to(
        repository.root.resolve()
    ):
        return Removed(
            "objects of DVC's cache", note=f"left: other clones may use {folder} (retention.own_cache)"
        )
    until = time.monotonic() + (0 if cleaning.dry_run else retention.cache_wait_minutes * 60)
    while True:
        with locked(repository.state / "checkouts.lock", wait=CHECKOUTS_WAIT) as lock:
            runs = active(repository)
            in_use = f"run {runs[0]} is active" if runs else ""
            if not in_use:
                try:
                    return _collect(cleaning, removed, lock)
                except ProgramError as error:
                    if error.code != BUSY:
                        raise
                    in_use = error.last[-1]
        if time.monotonic() > until:
            return Removed("objects of DVC's cache", note=f"left: {in_use}")
        cleaning.log(f"Waiting to collect DVC's cache: {in_use}")
        time.sleep(POLL)


def _collect(cleaning: Cleaning, removed: Collection[str], lock: int) -> Removed:
    """Run the program, which inherits the lock: if this process is killed, no run starts before the program has ended."""
    repository, retention = cleaning.repository, cleaning.retention
    gone = {(repository.state / name).resolve() for name in removed}
    heads = {
        tree.path.resolve(): tree.head for tree in repository.worktrees() if tree.head.strip("0")
    }  # else without a commit
    trees = {path: head for path, head in heads.items() if path not in gone}
    others = [path for path in trees if path != repository.root.resolve() and (path / ".dvc").is_dir()]
    options = {
        "revs": used_commits(repository, removed, trees.values(), everything=retention.remote),
        "projects": [str(path) for path in others],
        "before": cleaning.before(retention.cache_days),
        "dry": cleaning.dry_run,
        "remote": retention.remote,
    }
    programs = Programs(repository.root, "clean", locks=[lock])
    command = [sys.executable, "-P", "-m", "tuneline.project.garbage", json.dumps(options)]
    *messages, found = programs.run(command, "Collecting DVC's cache", lambda _line: None, keep=1000)
    for line in messages:
        cleaning.log(line)
    found = json.loads(found)
    note = f"{found['remote']} objects of the DVC remote" if found["remote"] else ""
    return Removed("objects of DVC's cache", bytes=found["bytes"], count=found["objects"], note=note)


def used_commits(
    repository: Repository, without: Collection[str], heads: Collection[str], *, everything: bool
) -> list[str]:
    """Return the commits whose outs are used: of refs (branches, tags, DVC's experiments) but ``without``, of stashes, and ``heads``.

    With ``everything``, what runs of other clones have pushed counts, too. The DVC remote has its outs, so
    this cache need not.
    """
    excluded = [f"refs/heads/{name}" for name in without] + ([] if everything else ["refs/remotes/*/runs/*"])
    patterns = (f"--exclude={pattern}" for pattern in excluded)
    named = repository.git("rev-list", "--no-walk", "--single-worktree", *patterns, "--all", *heads)
    return list(dict.fromkeys([*named.split(), *repository.git("stash", "list", "--format=%H").split()]))


@flow(name="clean", persist_result=False)
def clean(dry_run: bool = False, clock_is_right: bool = False) -> State[Any]:
    """Remove what is older than the settings allow: with `training.push`, the old branches of runs in the git remote `origin`, too.

    Args:
        dry_run: Only report what would be removed.
        clock_is_right: Clean although the last cleaning was longer ago than results are kept; else the clock
            counts as wrong then.
    """
    repository = Repository.here(get_run_logger().warning)
    settings = load_settings(repository.root)
    end_with_worker()
    repository.state.mkdir(parents=True, exist_ok=True)
    registry = Registry(repository, settings.promotion.artifact)
    try:
        with locked(repository.state / "clean.lock", wait=0):
            cleaning = Cleaning(
                registry,
                settings.retention,
                time.time(),
                get_run_logger().info,
                dry_run,
                settings.training.push,
            )
            if not clock_is_right and (problem := clock_problem(cleaning)):
                return ended("Nothing was removed.", [problem])
            if not dry_run:
                Cleaned(time=cleaning.now).write(repository.state / CLEANED)
            rows, problems = clean_all(cleaning, settings)
    except BusyError:
        return ended("Another run is cleaning.", name="Skipped")
    message = f"{'Would free' if dry_run else 'Freed'} {removal_summary(rows)}"
    create_table_artifact([row.as_cells() for row in rows], key="clean", description=message)
    return ended(message, problems, "DryRun" if dry_run else "Completed")


def clean_all(cleaning: Cleaning, settings: Settings) -> tuple[list[Removed], list[str]]:
    """Clean one kind after the other, whatever happens to the others; return what was removed, and the problems.

    The cache comes last: only then is known what names its objects.
    """
    rows: list[Removed] = []
    problems: list[str] = []

    def step(what: str, function: Callable[[], Removed | Sequence[Removed]]) -> None:
        try:
            found = function()
        except Exception as error:
            problems.append(f"{what} are not cleaned, the next run tries again: {error}")
            return
        for row in [found] if isinstance(found, Removed) else found:
            cleaning.log(str(row))
            rows.append(row)

    step("branches", lambda: clean_branches(cleaning))
    step("checkouts", lambda: clean_checkouts(cleaning))
    step("fetched models", lambda: clean_models(cleaning))
    step("scored files", lambda: clean_scored(cleaning, settings.scoring))
    step("refused batches", lambda: clean_refused_batches(cleaning))
    step("leftovers", lambda: clean_leftovers(cleaning, settings.scoring))
    removed = {name for row in rows for name in row.names}
    step("objects of DVC's cache", lambda: clean_cache(cleaning, removed))
    return rows, problems
