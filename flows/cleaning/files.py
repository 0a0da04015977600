"""Scored files with their archived inputs, records of refused files, and what killed programs left."""

import fcntl
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from flows.cleaning.rows import Cleaning, Row, size_of
from flows.ingestion.checks import REFUSED_BATCHES
from flows.runs.checkout import CHECKOUTS_WAIT
from flows.runs.repository import BusyError, locked
from flows.scoring.deployed import MODELS
from flows.scoring.inbox import Incoming, RefusedRecord
from flows.settings.scoring import Scoring
from tuneline.files.resumable import SUFFIX
from tuneline.records.scored import FileRecord, scored_record

_RUN = re.compile(r"(?P<run>.+-[0-9a-f]{8})(\.lock|\.json|\.json\.damaged)?")
"""Names of what a run has in the folder of states."""
OUTS = ("data", "models", "reports")
"""Folders with outs of stages that a killed process can leave for the next one (``tuneline/files/resumable.py``)."""
RESUMABLE_DAYS = 7
"""Days without a new file after which what a killed stage left is not waited for any more."""


def clean_scored(cleaning: Cleaning, scoring: Scoring, wait: float = 600) -> tuple[Row, Row]:
    """Remove old scored files, and inputs whose last scored file goes; and old records of refused files.

    The folder of scored files is the only record of what was scored, so what is still in the inbox keeps its result.
    """
    root, retention = cleaning.repository.root, cleaning.retention
    what = ("scored files", "records of refused files")
    with suppress(BusyError), locked(cleaning.repository.state / "scoring.lock", wait):
        waiting = _inbox(root / scoring.inbox)
        scored = {path: record for path in (root / scoring.outbox).glob("[!.]*.parquet") if (record := scored_record(path))}
        old = [path for path in _older(scored, cleaning.before(retention.scored_days)) if not _is_in(waiting, scored[path])]
        needed = {scored[path].archived for path in scored if path not in old}
        inputs = {scored[path].archived for path in old} - needed - {None}
        archived = [path for name in sorted(map(str, inputs)) if scoring.archive and (path := _inside(root / scoring.archive, root / name))]
        records = ((path, RefusedRecord.read_if_valid(path)) for path in (root / scoring.outbox).glob("[!.]*.error.json"))
        errors = {path: reason for path, reason in records if reason}
        refused = [path for path in _older(errors, cleaning.before(retention.refused_days)) if not _is_in(waiting, errors[path])]
        names = [path.name for path in old]
        note = f"with {len(archived)} archived inputs" if archived else ""
        rows = Row(what[0], names, size_of([*old, *archived]), note), Row(what[1], [path.name for path in refused], size_of(refused))
        if not cleaning.dry_run:
            remove_files([*archived, *old, *refused])  # a result without its input goes next time
        return rows
    return Row(what[0], note="left: files are being scored"), Row(what[1])


def _inbox(folder: Path) -> list[Incoming]:
    return [found for path in folder.glob("*") if (found := Incoming.find(path))]


def _is_in(waiting: Sequence[Incoming], record: FileRecord) -> bool:
    return any(one.name == record.path for one in waiting)


def _older(paths: Iterable[Path], before: float) -> list[Path]:
    return sorted(path for path in paths if path.stat().st_mtime < before)


def _inside(archive: Path, path: Path) -> Path | None:
    """Return an archived input; ``None`` if it is gone, or the record names something that is not in the archive."""
    path = path.resolve()
    return path if path.is_file() and path.is_relative_to(archive.resolve()) else None


def remove_files(paths: Iterable[Path]) -> None:
    """Remove files; one that is gone already is no error."""
    for path in paths:
        path.unlink(missing_ok=True)


def clean_leftovers(cleaning: Cleaning, scoring: Scoring) -> Row:
    """Remove what killed programs left: partial files and folders, what no stage has resumed for a week, old parts of runs."""
    repository, state = cleaning.repository, cleaning.repository.state
    before = cleaning.before(1)
    folders = [state, state / MODELS, state / REFUSED_BATCHES, repository.root / scoring.outbox]
    left = [path for folder in folders for path in folder.glob(".*") if path.suffix in {".partial", ".former"} and _is_free(path)]
    week = cleaning.before(RESUMABLE_DAYS)
    resumable = [path for folder in OUTS for path in (repository.root / folder).glob(f".*{SUFFIX}") if _newest(path) < week]
    left += [path for path in resumable if _is_free(path)]
    with locked(state / "checkouts.lock", wait=CHECKOUTS_WAIT):
        runs: dict[str, list[Path]] = {}
        for path in state.iterdir():
            if match := _RUN.fullmatch(path.name):
                runs.setdefault(match["run"], []).append(path)
        gone = {run: paths for run, paths in runs.items() if not (state / run / ".git").exists()}
        gone = {run: paths for run, paths in gone.items() if all(path.stat().st_mtime < before for path in paths)}
        free = [path for run, paths in gone.items() if _is_over(state / f"{run}.lock") for path in paths]
        row = Row("leftovers of killed programs", [path.name for path in (*left, *free)], size_of([*left, *free]))
        for path in () if cleaning.dry_run else [*left, *free]:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    return row


def _newest(folder: Path) -> float:
    return max((path.stat().st_mtime for path in (folder, *folder.rglob("*"))), default=0.0)


def _is_free(path: Path) -> bool:
    """Return True if no program writes a partial file or folder: its writer holds a lock on it (``tuneline/files``)."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        finally:
            os.close(descriptor)
    return False


def _is_over(lock: Path) -> bool:
    """Return True if no process holds the lock of a run."""
    if not lock.exists():
        return True
    with suppress(BusyError), locked(lock, wait=0):
        return True
    return False
