"""Checkouts and checkpoints of failed runs, fetched models, and batches that the data checks refused."""

import os
import shutil
from pathlib import Path

from flows.cleaning.rows import Cleaning, Row, size_of
from flows.ingestion.checks import REFUSED_BATCHES
from flows.runs.checkout import CHECKOUTS_WAIT, abandoned, remove, superfluous
from flows.runs.repository import locked
from flows.scoring.deployed import MODELS
from tuneline.paths import CHECKPOINTS


def clean_checkouts(cleaning: Cleaning) -> tuple[Row, Row]:
    """Remove the checkouts of failed runs that are too many or too old, and the checkpoints of other failed runs; none of a live run."""
    repository, retention = cleaning.repository, cleaning.retention
    with locked(repository.state / "checkouts.lock", wait=CHECKOUTS_WAIT):
        names = abandoned(repository)
        ended = {name: (repository.state / name).stat().st_mtime for name in names}
        many = superfluous(repository, retention.checkouts)
        old = [name for name in names if name in many or ended[name] < cleaning.before(retention.checkout_days)]
        with_checkpoints = [name for name in names if name not in old and (repository.state / name / CHECKPOINTS).is_dir()]
        resumable = [name for name in with_checkpoints if ended[name] < cleaning.before(retention.checkpoint_days)]
        checkpoints = [repository.state / name / CHECKPOINTS for name in resumable]
        rows = (
            Row("checkouts of failed runs", old, size_of(repository.state / name for name in old)),
            Row("checkpoints of failed runs", resumable, size_of(checkpoints)),
        )
        if not cleaning.dry_run:
            for folder in checkpoints:
                _remove_checkpoints(folder)
            for name in old:
                remove(repository, name)
    return rows


def _remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoints in a checkout, which keeps its time."""
    checkout = folder.parent
    times = checkout.stat()
    _discard(folder, checkout.with_name(f".{checkout.name}.checkpoints.former"))
    os.utime(checkout, ns=(times.st_atime_ns, times.st_mtime_ns))


def _discard(folder: Path, former: Path) -> None:
    """Remove a folder under another name: if this is killed, nobody takes a part of it for the whole, and the next cleaning finds it."""
    shutil.rmtree(former, ignore_errors=True)
    folder.rename(former)
    shutil.rmtree(former, ignore_errors=True)


def clean_models(cleaning: Cleaning) -> Row:
    """Remove fetched models but those that were used last; the cache or the DVC remote has them."""
    folder, kept = cleaning.repository.state / MODELS, cleaning.retention.models
    if kept is None or not folder.is_dir():
        return Row("fetched models")
    with locked(folder / ".lock", wait=600):
        models = sorted(folder.glob("[!.]*/"), key=lambda path: path.stat().st_mtime)
        old = models[: max(0, len(models) - kept)]
        row = Row("fetched models", [path.name for path in old], size_of(old))
        for path in () if cleaning.dry_run else old:
            _discard(path, path.with_name(f".{path.name}.former"))
    return row


def clean_refused_batches(cleaning: Cleaning) -> Row:
    """Remove batches that flow ``ingest`` set aside long ago, with the reports of their checks."""
    folders = (cleaning.repository.state / REFUSED_BATCHES).glob("[!.]*/")
    old = sorted(path for path in folders if path.stat().st_mtime < cleaning.before(cleaning.retention.refused_days))
    row = Row("refused batches", [path.name for path in old], size_of(old))
    for path in () if cleaning.dry_run else old:
        _discard(path, path.with_name(f".{path.name}.former"))
    return row
