"""Flow ``clean``: removes what runs leave behind and nobody needs any more.

``retention`` in ``conf/flows.yaml`` says how long each kind is kept.
Kind by kind: branches, checkouts, models, refused batches, scored files, leftovers, and at last DVC's cache.
Every step can be killed and run again. What a live run uses stays. Prefect's server removes its own old runs
(flows/server/api.py).
"""

import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.client.schemas import State

from flows.alerts import ended
from flows.inbox import RefusedRecord, regular_files
from flows.ingest import REFUSED_FOLDER
from flows.promotion.judgements import Judgements
from flows.promotion.production import MODELS
from flows.promotion.registry import Registry
from flows.promotion.unpushed import unpushed_results
from flows.runs.checkout import CHECKOUTS_WAIT, abandoned, active, remove_checkout, superfluous
from flows.runs.commits import RUN_TRAILER
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import Repository
from flows.server.worker import end_with_worker
from tuneline.core.records import Record
from tuneline.core.written_records import write_record
from tuneline.paths import CHECKPOINTS
from tuneline.predict.scored import scored_record
from tuneline.repository.dvc import cache_folder
from tuneline.repository.garbage import BUSY
from tuneline.runtime.locks import BusyError, locked
from tuneline.runtime.resumable import RESUMABLE
from tuneline.runtime.wording import first_of
from tuneline.settings import Retention, Scoring, Settings, load_settings

DAY = 86400.0
EXAMPLES = 3
"""Names in a row of the table; the log has all."""


@dataclass(frozen=True)
class Cleaning:
    """One cleaning of the registry's clone.

    Attributes:
        now: Unix time of the cleaning.
        log: Takes a line for the log of the run.
        dry_run: Nothing is removed.
        push: Branches of ``origin`` are removed, too.
    """

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
        if days is None:
            return float("-inf")
        return self.now - days * DAY


@dataclass(frozen=True)
class Removed:
    """What is removed of one kind.

    Attributes:
        what: The kind.
        names: Names of what is removed.
        bytes: Bytes that this frees.
        note: What is left although it is old, or other facts.
        count: Number of what is removed, if that has no names.
    """

    what: str
    names: Sequence[str] = ()
    bytes: int = 0
    note: str = ""
    count: int | None = None

    @classmethod
    def paths(cls, what: str, paths: Sequence[Path]) -> "Removed":
        """Return what removing files and folders of a kind frees."""
        return cls(what, [path.name for path in paths], freed_size(paths))

    @property
    def number(self) -> int:
        """How many are removed."""
        if self.count is None:
            return len(self.names)
        return self.count

    def as_cells(self) -> dict[str, Any]:
        """Return the row of the table in Prefect's UI, with a few names."""
        details = filter(None, [first_of(self.names, EXAMPLES), self.note])
        return {
            "what": self.what,
            "number": self.number,
            "MB": f"{self.bytes / 1e6:.1f}",
            "": "; ".join(details),
        }

    def __str__(self) -> str:
        """Return the row for a log: with all names."""
        text = f"{self.what}: {self.number}, {self.bytes / 1e6:.1f} MB"
        return "; ".join(filter(None, [text, ", ".join(self.names), self.note]))


def removal_summary(rows: Sequence[Removed]) -> str:
    """Return the rows in one line, for the state of a run."""
    size = 0
    numbers = []
    notes = []
    for row in rows:
        size += row.bytes
        if row.number:
            numbers.append(f"{row.number} {row.what}")
        if row.note:
            notes.append(f"{row.what}: {row.note}")
    freed = f"{size / 1e6:.1f} MB: {', '.join(numbers) or 'nothing'}"
    return "; ".join([freed, *notes])


def freed_size(paths: Iterable[Path]) -> int:
    """Return the bytes that removing files and folders frees; links to a file that stays are not counted."""
    size = 0
    for path in paths:
        files = [path] if path.is_file() else path.rglob("*")
        for file in files:
            if file.is_dir() and not file.is_symlink():
                continue
            status = file.lstat()
            if status.st_nlink == 1:
                size += status.st_size
    return size


CLEANED = "cleaned.json"
"""Name of the record of the last cleaning, in the folder of states."""
PAUSE = 30.0
"""Days without a cleaning that need no explanation: a machine is switched off at times."""


class Cleaned(Record):
    """The Unix time of the last cleaning."""

    time: float


def clock_problem(cleaning: Cleaning) -> str | None:
    """Return why the clock may be ahead; ``None`` if the last cleaning is recent.

    Before the first cleaning, the newest commit must be recent. A clock that is months ahead makes every
    result old. Only cleanings tell: other runs have dated their results by that clock before the next
    cleaning begins.
    """
    retention = cleaning.retention
    periods = (retention.branch_days, retention.scored_days, retention.refused_days)
    limits = [days for days in periods if days is not None]
    if not limits:
        return None
    limit = max(PAUSE, min(limits))

    last_cleaning = Cleaned.read_if_valid(cleaning.repository.state / CLEANED)
    if last_cleaning:
        last = last_cleaning.time
        what = "the last cleaning"
    else:
        newest = cleaning.repository.git(
            "for-each-ref", "--sort=-creatordate", "--count=1", "--format=%(creatordate:unix)"
        )
        last = float(newest or cleaning.now)
        what = "the newest commit"
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
    """Remove the branches of old results, with ``push`` from ``origin`` first.

    A failure there leaves the branches of this clone for the next time.
    """
    what = "branches runs/*"
    if cleaning.retention.branch_days is None:
        return Removed(what)

    repository = cleaning.repository
    with cleaning.registry.locked(LOCK_WAIT):
        needed = _needed(cleaning)
        local = _old(cleaning, "refs/heads/", needed)
        remote: dict[str, str] = {}
        if cleaning.push and repository.has_remote():
            repository.transfer(
                "fetch", "--prune", "--no-tags", "origin", "+refs/heads/runs/*:refs/remotes/origin/runs/*"
            )
            remote = _old(cleaning, "refs/remotes/origin/", needed)
        if not cleaning.dry_run:
            _delete_remote(repository, remote)
            _delete_local(repository, local)
    return Removed(what, list(local), note=f"{len(remote)} in origin" if remote else "")


def _delete_remote(repository: Repository, branches: Mapping[str, str]) -> None:
    """Delete branches of ``origin``, only if they still are at these commits."""
    leases = []
    deletions = []
    for name, commit in branches.items():
        leases.append(f"--force-with-lease=refs/heads/{name}:{commit}")
        deletions.append(f":refs/heads/{name}")
    if branches:
        repository.transfer("push", "--quiet", *leases, "origin", *deletions)


def _delete_local(repository: Repository, branches: Mapping[str, str]) -> None:
    """Delete branches of this clone, in one transaction, and only if they still are at these commits."""
    if branches:
        lines = [f"delete refs/heads/{name} {commit}\n" for name, commit in branches.items()]
        repository.git("update-ref", "--stdin", text="".join(lines))


def _needed(cleaning: Cleaning) -> set[str]:
    """Return the commits whose branches stay, whatever their age."""
    # versions in a stage
    needed = {version.commit for version in cleaning.registry.tags().staged}
    # results that are not pushed yet
    for unpushed_result in unpushed_results(cleaning.repository):
        result = unpushed_result.committed(cleaning.repository)
        if result:
            needed.add(result.commit)
    # results that a run came to again not long ago
    since = cleaning.before(cleaning.retention.branch_days)
    return needed | Judgements(cleaning.repository).commits_since(since)


def _old(cleaning: Cleaning, prefix: str, needed: set[str]) -> dict[str, str]:
    """Return the commits of old branches, by their names from ``runs/`` on.

    Only branches that runs made count, that nobody has committed to, and that nobody has checked out.
    """
    before = cleaning.before(cleaning.retention.branch_days)
    old = {}
    for line in cleaning.repository.git("for-each-ref", f"--format={_LINE}", f"{prefix}runs/").splitlines():
        commit, date, worktree, run, ref = line.split("\x1f")
        if run and not worktree and float(date) < before and commit not in needed:
            old[ref.removeprefix(prefix)] = commit
    return old


def clean_checkouts(cleaning: Cleaning) -> tuple[Removed, Removed]:
    """Remove checkouts of failed runs that are too many or too old, and old checkpoints.

    What a live run uses stays.
    """
    repository = cleaning.repository
    retention = cleaning.retention
    with locked(repository.state / "checkouts.lock", wait=CHECKOUTS_WAIT):
        names = abandoned(repository)
        too_many = superfluous(repository, retention.checkouts)

        # what goes
        old = []
        for name in names:
            ended = (repository.state / name).stat().st_mtime
            if name in too_many or ended < cleaning.before(retention.checkout_days):
                old.append(name)
        size = freed_size(repository.state / name for name in old)
        if not cleaning.dry_run:
            for name in old:
                remove_checkout(repository, name)

    # every checkpoint that a training writes changes the time of its folder
    checkpoints = []
    for folder in sorted((repository.root / CHECKPOINTS).glob("[!.]*/")):
        if folder.stat().st_mtime < cleaning.before(retention.checkpoint_days):
            checkpoints.append(folder)
    return (
        Removed("checkouts of failed runs", old, size),
        _discard_all(cleaning, "checkpoints of failed runs", checkpoints),
    )


def _discard(folder: Path, former: Path) -> None:
    """Remove a folder under another name.

    If this is killed, nobody takes a part of it for the whole, and the next cleaning finds it.
    """
    shutil.rmtree(former, ignore_errors=True)
    folder.rename(former)
    shutil.rmtree(former, ignore_errors=True)


def clean_models(cleaning: Cleaning) -> Removed:
    """Remove fetched models but those that were used last; the cache or the DVC remote has them."""
    folder = cleaning.repository.state / MODELS
    limit = cleaning.retention.models
    if limit is None or not folder.is_dir():
        return Removed("fetched models")
    with locked(folder / ".lock", wait=600):
        models = sorted(folder.glob("[!.]*/"), key=lambda path: path.stat().st_mtime)
        return _discard_all(cleaning, "fetched models", models[: max(0, len(models) - limit)])


def clean_refused_batches(cleaning: Cleaning) -> Removed:
    """Remove batches that flow ``ingest`` set aside long ago, with the reports of their checks."""
    folders = (cleaning.repository.state / REFUSED_FOLDER).glob("[!.]*/")
    old = _older(folders, cleaning.before(cleaning.retention.refused_days))
    return _discard_all(cleaning, "refused batches", old)


def _discard_all(cleaning: Cleaning, what: str, folders: Sequence[Path]) -> Removed:
    """Remove folders of one kind."""
    row = Removed.paths(what, folders)
    if not cleaning.dry_run:
        for path in folders:
            _discard(path, path.with_name(f".{path.name}.former"))
    return row


_RUN_NAME = re.compile(r"(?P<run>.+-[0-9a-f]{8})(\.lock|\.json|\.json\.damaged)?")
"""Names of what a run has in the folder of states."""
OUTS = ("data", "models", "reports")
"""Folders with outs that a killed stage can leave for the next run of it.

``tuneline/runtime/resumable.py`` writes them.
"""
RESUMABLE_DAYS = 7
"""Days without a new file after which what a killed stage left is not waited for any more."""


def clean_scored(cleaning: Cleaning, scoring: Scoring, wait: float = 600) -> tuple[Removed, Removed]:
    """Remove old scored files, and inputs whose last scored file goes; and old records of refused files.

    The folder of scored files is the only record of what was scored, so what is still in the inbox keeps its
    result.
    """
    root = cleaning.repository.root
    with suppress(BusyError), locked(cleaning.repository.state / "scoring.lock", wait):
        waiting = {file.name for file in regular_files((root / scoring.inbox).glob("*"))}
        results, inputs = _old_results(cleaning, scoring, waiting)
        refused = _old_refused(cleaning, root / scoring.outbox, waiting)

        names = [path.name for path in results]
        note = f"with {len(inputs)} archived inputs" if inputs else ""
        rows = (
            Removed("scored files", names, freed_size(results + inputs), note),
            Removed.paths("records of refused files", refused),
        )
        if not cleaning.dry_run:
            # Inputs first: a result without its input goes next time.
            for path in inputs + results + refused:
                path.unlink(missing_ok=True)
        return rows
    return Removed("scored files", note="left: files are being scored"), Removed("records of refused files")


def _old_results(
    cleaning: Cleaning, scoring: Scoring, waiting: Collection[str]
) -> tuple[list[Path], list[Path]]:
    """Return the old results of files that do not wait in the inbox, and their archived inputs.

    An input that a newer result needs is left out.
    """
    root = cleaning.repository.root
    records = {}
    for path in (root / scoring.outbox).glob("[!.]*.parquet"):
        record = scored_record(path)
        if record:
            records[path] = record

    old = []
    for path in _older(records, cleaning.before(cleaning.retention.scored_days)):
        if records[path].path not in waiting:
            old.append(path)

    # their inputs
    places = set()
    needed: set[str | None] = {None}  # a file that stayed in the inbox has no place
    for path, record in records.items():
        if path in old:
            places.add(record.archived)
        else:
            needed.add(record.archived)
    inputs = []
    for place in sorted(map(str, places - needed)):
        archived = _inside(root / scoring.archive, root / place) if scoring.archive else None
        if archived:
            inputs.append(archived)
    return old, inputs


def _old_refused(cleaning: Cleaning, outbox: Path, waiting: Collection[str]) -> list[Path]:
    """Return the old records of refused files that do not wait in the inbox."""
    paths = []
    for path in outbox.glob("[!.]*.error.json"):
        record = RefusedRecord.read_if_valid(path)
        if record and record.path not in waiting:
            paths.append(path)
    return _older(paths, cleaning.before(cleaning.retention.refused_days))


def _older(paths: Iterable[Path], before: float) -> list[Path]:
    """Return the paths that changed last before a Unix time, in alphabetical order."""
    return sorted(path for path in paths if path.stat().st_mtime < before)


def _inside(archive: Path, path: Path) -> Path | None:
    """Return an archived input; ``None`` if it is gone, or its record names something outside the archive."""
    path = path.resolve()
    if path.is_file() and path.is_relative_to(archive.resolve()):
        return path
    return None


def clean_leftovers(cleaning: Cleaning, scoring: Scoring) -> Removed:
    """Remove what killed programs left: partial files, outs that no stage has resumed, parts of runs."""
    repository = cleaning.repository
    state = repository.state
    leftovers = []

    # partial files and folders
    for folder in (state, state / MODELS, state / REFUSED_FOLDER, repository.root / scoring.outbox):
        for path in folder.glob(".*"):
            if path.suffix in {".partial", ".former"} and _is_free(path):
                leftovers.append(path)

    # outs of stages that were not completed
    week = cleaning.before(RESUMABLE_DAYS)
    for folder_of_outs in OUTS:
        for path in (repository.root / folder_of_outs).glob(f".*{RESUMABLE}"):
            if _newest(path) < week and _is_free(path):
                leftovers.append(path)

    with locked(state / "checkouts.lock", wait=CHECKOUTS_WAIT):
        leftovers += _parts_of_runs(state, cleaning.before(1))
        row = Removed.paths("leftovers of killed programs", leftovers)
        if not cleaning.dry_run:
            for path in leftovers:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
    return row


def _parts_of_runs(state: Path, before: float) -> list[Path]:
    """Return what is left of runs without a checkout, if nothing of a run changed since a Unix time."""
    runs: dict[str, list[Path]] = {}
    for path in state.iterdir():
        match = _RUN_NAME.fullmatch(path.name)
        if match:
            runs.setdefault(match["run"], []).append(path)

    parts = []
    for run, paths in runs.items():
        if (state / run / ".git").exists() or any(path.stat().st_mtime >= before for path in paths):
            continue
        lock = state / f"{run}.lock"
        if not lock.exists() or _is_free(lock):
            parts += paths
    return parts


def _newest(folder: Path) -> float:
    """Return the Unix time of the last change in a folder."""
    newest = folder.stat().st_mtime
    for path in folder.rglob("*"):
        newest = max(newest, path.stat().st_mtime)
    return newest


def _is_free(path: Path) -> bool:
    """Return True if no process holds the lock on a file or folder.

    Runs lock a file of theirs, and writers what they have not completed (``runtime/atomic_files.py``).
    """
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
    repository = cleaning.repository
    retention = cleaning.retention
    what = "objects of DVC's cache"
    if retention.cache_days is None:
        return Removed(what)
    if not retention.own_cache:
        folder = cache_folder(repository.root).resolve()
        if not folder.is_relative_to(repository.root.resolve()):
            return Removed(what, note=f"left: other clones may use {folder} (retention.own_cache)")

    wait = 0 if cleaning.dry_run else retention.cache_wait_minutes * 60
    until = time.monotonic() + wait
    while True:
        with locked(repository.state / "checkouts.lock", wait=CHECKOUTS_WAIT) as lock:
            runs = active(repository)
            if runs:
                in_use = f"run {runs[0]} is active"
            else:
                try:
                    return _collect(cleaning, removed, lock)
                except ProgramError as error:
                    if error.code != BUSY:
                        raise
                    in_use = error.last[-1]
        if time.monotonic() > until:
            return Removed(what, note=f"left: {in_use}")
        cleaning.log(f"Waiting to collect DVC's cache: {in_use}")
        time.sleep(POLL)


def _collect(cleaning: Cleaning, removed: Collection[str], lock: int) -> Removed:
    """Run the program that removes objects.

    It inherits the lock: if this process is killed, no run starts before the program has ended.
    """
    repository = cleaning.repository
    retention = cleaning.retention

    # the working trees whose heads are in use
    gone = {(repository.state / name).resolve() for name in removed}
    heads = {}
    for tree in repository.worktrees():
        has_commit = tree.head.strip("0")
        if has_commit and tree.path.resolve() not in gone:
            heads[tree.path.resolve()] = tree.head
    projects = []
    for path in heads:
        if path != repository.root.resolve() and (path / ".dvc").is_dir():
            projects.append(str(path))

    options = {
        "revs": used_commits(repository, removed, heads.values(), everything=retention.remote),
        "projects": projects,
        "before": cleaning.before(retention.cache_days),
        "dry": cleaning.dry_run,
        "remote": retention.remote,
    }
    programs = Programs(repository.root, "clean", locks=[lock])
    command = [sys.executable, "-P", "-m", "tuneline.repository.garbage", json.dumps(options)]
    lines = list(programs.run(command, "Collecting DVC's cache", lambda _line: None, keep=1000))
    result_line = lines.pop()
    for line in lines:
        cleaning.log(line)

    result = json.loads(result_line)
    note = f"{result['remote']} objects of the DVC remote" if result["remote"] else ""
    return Removed("objects of DVC's cache", bytes=result["bytes"], count=result["objects"], note=note)


def used_commits(
    repository: Repository, without: Collection[str], heads: Collection[str], *, everything: bool
) -> list[str]:
    """Return the commits whose outs are used.

    They are the commits of refs (branches, tags, DVC's experiments), of stashes, and of heads.

    Args:
        repository: The clone.
        without: Branches that do not count.
        heads: Commits that are checked out.
        everything: What runs of other clones have pushed counts, too. The DVC remote has its outs, so this
            cache need not.
    """
    excluded = [f"--exclude=refs/heads/{name}" for name in without]
    if not everything:
        excluded.append("--exclude=refs/remotes/*/runs/*")
    commits = repository.git("rev-list", "--no-walk", "--single-worktree", *excluded, "--all", *heads).split()
    commits += repository.git("stash", "list", "--format=%H").split()
    return list(dict.fromkeys(commits))


@flow(name="clean", persist_result=False)
def clean(dry_run: bool = False, clock_is_right: bool = False) -> State[Any]:
    """Remove what is older than the settings allow; with `training.push`, also branches of runs in `origin`.

    Args:
        dry_run: Only report what would be removed.
        clock_is_right: Clean although the last cleaning was longer ago than results are kept; else the clock
            counts as wrong then.
    """
    # settings
    repository = Repository.here(get_run_logger().warning)
    settings = load_settings(repository.root)
    end_with_worker()
    repository.state.mkdir(parents=True, exist_ok=True)
    registry = Registry(repository, settings.promotion.artifact)
    log = get_run_logger().info

    try:
        with locked(repository.state / "clean.lock", wait=0):
            now = time.time()
            cleaning = Cleaning(registry, settings.retention, now, log, dry_run, settings.training.push)
            problem = None if clock_is_right else clock_problem(cleaning)
            if problem:
                return ended("Nothing was removed.", [problem])
            if not dry_run:
                write_record(repository.state / CLEANED, Cleaned(time=now))
            rows, problems = clean_all(cleaning, settings)
    except BusyError:
        return ended("Another run is cleaning.", name="Skipped")

    # what was removed
    verb = "Would free" if dry_run else "Freed"
    message = f"{verb} {removal_summary(rows)}"
    create_table_artifact([row.as_cells() for row in rows], key="clean", description=message)
    return ended(message, problems, "DryRun" if dry_run else "Completed")


def clean_all(cleaning: Cleaning, settings: Settings) -> tuple[list[Removed], list[str]]:
    """Clean one kind after the other, whatever happens to the others.

    The cache comes last: only then is known what names its objects.

    Returns:
        What was removed, and the problems.
    """
    rows: list[Removed] = []
    problems: list[str] = []

    def step(what: str, function: Callable[[], Removed | Sequence[Removed]]) -> None:
        try:
            removed = function()
        except Exception as error:
            problems.append(f"{what} are not cleaned, the next run tries again: {error}")
            return
        if isinstance(removed, Removed):
            removed = [removed]
        for row in removed:
            cleaning.log(str(row))
            rows.append(row)

    step("branches", lambda: clean_branches(cleaning))
    step("checkouts", lambda: clean_checkouts(cleaning))
    step("fetched models", lambda: clean_models(cleaning))
    step("scored files", lambda: clean_scored(cleaning, settings.scoring))
    step("refused batches", lambda: clean_refused_batches(cleaning))
    step("leftovers", lambda: clean_leftovers(cleaning, settings.scoring))

    names: set[str] = set()
    for row in rows:
        names.update(row.names)
    step("objects of DVC's cache", lambda: clean_cache(cleaning, names))
    return rows, problems
