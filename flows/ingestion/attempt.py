"""One attempt to bring new rows, or a new commit of a data set of the hub, into a checkout, to check and to commit them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from prefect import task

from flows import alerts
from flows.ingestion import checks
from flows.ingestion.checks import RefusedDataError
from flows.ingestion.harvest import Harvester, NewRows
from flows.ingestion.known import RowHashes
from flows.ingestion.ledger import LEDGER, Ingested, Ledger
from flows.promotion.registry import Registry
from flows.runs.checkout import Checkout
from flows.runs.pipeline import UNCACHED, Pipeline
from flows.runs.repository import Repository
from flows.runs.results import TRAILER
from flows.scoring.inbox import Incoming
from flows.settings import IngestSource, Settings
from tuneline.analysis.text import Keys
from tuneline.checkpoints.hub import explained
from tuneline.core.errors import ParamsError
from tuneline.core.paths import PARAMS, RAW, SPLITS
from tuneline.core.tables import SplitReader
from tuneline.params.data import DataParams
from tuneline.params.loading import load_params
from tuneline.project import params_file
from tuneline.project.scored import find_texts

DONE, REFUSED = "done", "refused"
"""Folders in a drop folder: for files that were ingested, and for those that the data checks refused."""
ROWS = "Ingested-Rows"
"""Trailer of the commit."""
NAMED = 5
"""Files of a source that a commit message names."""


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


@dataclass(frozen=True)
class HubRevision:
    """A new commit of the data set, in a checkout.

    Attributes:
        source: The source that follows the data set.
        commit: The commit.
        root: The checkout.
        texts: The text columns.
        before: Hashes of the texts of ``data/raw`` before, by split; empty if the checkout had none.
    """

    source: IngestSource
    commit: str
    root: Path
    texts: tuple[str, ...]
    before: dict[str, Keys]

    @classmethod
    def find(cls, source: IngestSource, data: DataParams, root: Path) -> "HubRevision | None":
        """Set the present commit of the branch in ``params.yaml``; ``None`` if it is there already.

        Raises:
            ParamsError: The pipeline reads no data set of the hub.
            StageError: The hub has no such branch, or cannot be reached.
        """
        if data.source != "hub":
            hint = "A source with hub: true follows the data set of data.path; for files, name a folder, url or query."
            raise ParamsError(f"{source.name}: data.source is {data.source!r}, not 'hub'.", hint)
        from huggingface_hub import HfApi

        with explained("data.path", str(data.path), source.revision):
            commit = str(HfApi().dataset_info(str(data.path), revision=source.revision).sha)
        if commit == data.revision:
            return None
        texts = tuple(data.text_columns)
        before = raw_texts(root, texts)
        params_file.write(root / PARAMS, params_file.changed(root / PARAMS, {"data.revision": commit}))  # keeps the comments
        return cls(source, commit, root, texts, before)

    @property
    def found(self) -> Ingested:
        """The entry of the ledger, before the stages have run: without a number of rows."""
        return Ingested(date=datetime.now(UTC).isoformat(timespec="seconds"), source=self.source.name, revision=self.commit)

    def entry(self) -> Ingested:
        """Return the entry of the ledger, after the stages have run.

        Raises:
            RefusedDataError: Rows of validation or test are now in train.
        """
        after = raw_texts(self.root, self.texts)
        nothing = np.zeros(0, np.uint64)
        held = np.concatenate([nothing, *(self.before.get(split, nothing) for split in SPLITS if split != "train")])
        train, trained = after.get("train", nothing), self.before.get("train", nothing)
        moved = int(np.count_nonzero(np.isin(train, held) & ~np.isin(train, trained)))
        if moved:
            raise RefusedDataError(f"{moved:,} rows that were in validation or test are in train in {self.commit[:12]}.")
        added = sum(map(len, after.values())) - sum(map(len, self.before.values())) if self.before else 0
        return self.found.model_copy(update={"added": max(0, added)})


def raw_texts(root: Path, texts: tuple[str, ...]) -> dict[str, Keys]:
    """Return the hashes of the texts in ``data/raw`` by split; empty if the checkout has no raw splits."""
    found = {}
    for split in SPLITS:
        if raw := SplitReader.find(root / RAW, split):
            hashes = [RowHashes.of(batch.columns, pa.nulls(len(batch), pa.string()), None).texts for batch in raw.batches(texts)]
            found[split] = np.concatenate([np.zeros(0, np.uint64), *hashes])
    return found


@dataclass
class IngestAttempt:
    """One attempt of a run.

    Attributes:
        repository: The repository.
        settings: Settings of the flows.
        checkout: Checkout of the branch.
        pipeline: The pipeline in it.
        revision: New commit of a data set of the hub.
    """

    repository: Repository
    settings: Settings
    checkout: Checkout
    pipeline: Pipeline
    revision: HubRevision | None = None

    def collect(self, sources: Sequence[IngestSource]) -> NewRows:
        """Bring the new rows of the sources into the checkout.

        Raises:
            ParamsError: The parameters of the branch do not allow it.
            DataError: The data of the branch cannot be read.
        """
        self.pipeline.restore(self.pipeline.graph().sources)
        return _collect(self, sources)

    def follow_hub(self, sources: Sequence[IngestSource], data: DataParams) -> NewRows:
        """Set the present commit of the data set in the checkout."""
        if len(sources) > 1:
            raise ParamsError("ingest.sources: a source with hub: true must be the only one.", "data.source is one data set, or files.")
        self.revision = HubRevision.find(sources[0], data, self.checkout.path)
        return NewRows(entries=[self.revision.found] if self.revision else [])

    def is_enough(self, new: NewRows) -> bool:
        """Return True if there are as many new rows as ``ingest.min_rows`` asks for; a commit of the hub always is."""
        return bool(new.entries) and (self.revision is not None or new.rows >= self.required)

    @property
    def required(self) -> int:
        """Fewer new rows than this are not committed."""
        return max(1, self.settings.ingest.min_rows)

    def check(self, new: NewRows) -> None:
        """Run the data checks.

        Raises:
            RefusedDataError: They do not pass.
        """
        registry = Registry(self.repository, self.settings.promotion.artifact)
        checks.check(self.pipeline, self.checkout, registry, self.settings, self.pipeline.graph().stages)
        if self.revision:
            new.entries = [self.revision.entry()]

    def commit(self, new: NewRows, run_id: str, *, push: bool) -> str:
        """Commit batch files and ledger in the checkout, and return the commit. No branch has it yet.

        ``push`` pushes the rows to the DVC remote first: what a commit names must be available.
        """
        paths = [str(PARAMS)] if new.tracked is None else self._version(new.tracked, push=push)
        root, git = self.checkout.path, self.repository.git
        Ledger.of(root).plus(new.entries).write(root / LEDGER)
        git("add", "--", *paths, str(LEDGER), cwd=root)
        git("-c", "commit.gpgsign=false", "commit", "--quiet", "--file=-", cwd=root, text=message(new.entries, run_id))
        return git("rev-parse", "HEAD", cwd=root)

    def _version(self, tracked: Path, *, push: bool) -> list[str]:
        """Add the folder of the batches to DVC, and return the files that git has to have."""
        file, ignored = f"{tracked}.dvc", tracked.parent / ".gitignore"  # dvc add lists the folder there, if git does not ignore it already
        self.pipeline.dvc("add", "--quiet", str(tracked), what="Versioning the new rows")
        if push:
            self.pipeline.dvc("push", file, what="Pushing the new rows to the DVC remote")
        return [file, *([str(ignored)] if (self.checkout.path / ignored).exists() else [])]


@task(name="collect", task_run_name="collect", **UNCACHED)
def _collect(attempt: IngestAttempt, sources: Sequence[IngestSource]) -> NewRows:
    """Read the sources."""
    root, settings, repository = attempt.checkout.path, attempt.settings, attempt.repository
    data = load_params(root / PARAMS).data
    if any(source.hub for source in sources):
        return attempt.follow_hub(sources, data)
    texts = partial(find_texts, repository.root, repository.root / settings.scoring.outbox)
    harvester = Harvester(repository.root, root, data, key=settings.ingest.key, find_texts=texts, log=attempt.pipeline.on_line)
    tracked = harvester.layout.tracked(root, repository)
    new = harvester.harvest(sources, root / ".dvc" / "tmp" / "ingest")
    new.tracked = tracked
    return new


INGESTED = "tuneline.data.ingested"
REFUSED_EVENT = "tuneline.data.refused"
RESOURCE = "tuneline.data.source"


def send(event: str, source: str, message: str, **payload: Any) -> None:
    """Emit an event, with a message for people and a payload for programs, and wait until it is sent."""
    alerts.send(event, {"prefect.resource.id": RESOURCE}, {"source": source, "message": message, **payload})
