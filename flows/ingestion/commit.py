"""The commit of new rows: their files in DVC, the ledger in git, and the files of drop folders out of the way afterwards."""

import hashlib
from pathlib import Path

from flows.ingestion.ledger import LEDGER, Ingested, Ledger
from flows.runs.checkout import Checkout
from flows.runs.pipeline import Pipeline
from flows.runs.repository import Repository
from flows.runs.results import TRAILER
from flows.scoring.inbox import Incoming

DONE, REFUSED = "done", "refused"
"""Folders in a drop folder: for files that were ingested, and for those that the data checks refused."""
ROWS = "Ingested-Rows"
"""Trailer of the commit."""
NAMED = 5
"""Files of a source that a commit message names."""


def commit_rows(
    repository: Repository, checkout: Checkout, pipeline: Pipeline, tracked: Path, entries: list[Ingested], *, run_id: str, push: bool
) -> str:
    """Commit batch files and ledger in the checkout, and return the commit. No branch has it yet.

    Args:
        repository: The repository.
        checkout: The checkout, which contains the batch files.
        pipeline: The pipeline in it.
        tracked: Folder that DVC tracks.
        entries: The new entries of the ledger.
        run_id: Id of the Prefect run.
        push: Push the rows to the DVC remote first: what a commit names must be available.
    """
    file = f"{tracked}.dvc"
    pipeline.dvc("add", "--quiet", str(tracked), what="Versioning the new rows")
    if push:
        pipeline.dvc("push", file, what="Pushing the new rows to the DVC remote")
    ignored = tracked.parent / ".gitignore"  # dvc add lists the folder there, if git does not ignore it already
    return commit(repository, checkout, [file, *([str(ignored)] if (checkout.path / ignored).exists() else [])], entries, run_id)


def commit(repository: Repository, checkout: Checkout, paths: list[str], entries: list[Ingested], run_id: str) -> str:
    """Commit files of the checkout and the ledger with new entries, and return the commit."""
    Ledger.of(checkout.path).plus(entries).write(checkout.path / LEDGER)
    repository.git("add", "--", *paths, str(LEDGER), cwd=checkout.path)
    text = message(entries, run_id)
    repository.git("-c", "commit.gpgsign=false", "commit", "--quiet", "--file=-", cwd=checkout.path, text=text)
    return repository.git("rev-parse", "HEAD", cwd=checkout.path)


def message(entries: list[Ingested], run_id: str) -> str:
    """Return the commit message: what came from where, and how many rows."""
    rows = sum(entry.added for entry in entries)
    from_where = ", ".join(f"{entry.source} {entry.revision[:12] if entry.revision else f'{entry.added:,}'}" for entry in entries)
    body = []
    for entry in entries:
        names = [read.name for read in entry.files]
        more = [f"and {len(names) - NAMED} more"] if len(names) > NAMED else []
        body.append(f"{entry.source}: {entry.counts}" + (f" ({', '.join([*names[:NAMED], *more])})" if names else ""))
    return "\n".join([f"Ingest new rows: {from_where}", "", *body, "", f"{ROWS}: {rows}", f"{TRAILER}: {run_id}"])


def committed_by(repository: Repository, ref: str, run_id: str) -> tuple[str, int] | None:
    """Return the commit at the tip of a branch and its number of rows, if an earlier attempt of this run made it."""
    values = [f"%(trailers:key={key},valueonly,separator=)" for key in (ROWS, TRAILER)]
    commit, *trailers = repository.git("log", "-1", f"--format=%H %n{'%n'.join(values)}", ref).split()
    return (commit, int(trailers[0])) if len(trailers) == 2 and trailers[1] == run_id else None


def put_away(files: list[Incoming], folder: str) -> None:
    """Move files of drop folders to a folder beside them. A file that changed since it was read stays; none is overwritten."""
    for file in files:
        if Incoming.find(file.path) != file:
            continue
        target = file.path.parent / folder / file.path.name
        target.parent.mkdir(exist_ok=True)
        if target.exists() and Incoming.find(target) != Incoming(target, file.size, file.mtime_ns):
            digest = hashlib.sha256(f"{file.sha256}{file.mtime_ns}".encode()).hexdigest()[:8]
            target = target.with_name(f"{digest}-{target.name}")
        file.path.rename(target)
