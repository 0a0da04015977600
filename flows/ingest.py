"""Flow ``ingest``: commits new labelled rows to a branch, after the data checks.

The next training trains on them.
"""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from uuid import NAMESPACE_URL, uuid5

import numpy as np
import pyarrow as pa
from prefect import flow, get_run_logger, runtime, task
from prefect.client.schemas import State

from flows.alerts import ended, ended_again, send
from flows.inbox import unused, was_written_on
from flows.ingestion.conflicts import write_contradictions
from flows.ingestion.harvest import Delivery, Harvester, NewRows
from flows.ingestion.known import RowHashes
from flows.ingestion.ledger import LEDGER, REFUSED_BATCHES, Ingested, Ledger
from flows.promotion.production import fetch_profile, fetch_reference
from flows.promotion.registry import Registry
from flows.runs.checkout import Checkout, isolated
from flows.runs.commits import (
    RUN_TRAILER,
    NotFastForwardError,
    complete_move,
    fast_forward,
    follow_origin,
)
from flows.runs.pipeline import UNCACHED, Pipeline, log_line, stage_task
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import Repository
from flows.server.worker import end_with_worker
from tuneline.analysis.text import Keys
from tuneline.checkpoints.hub import hub_errors_explained
from tuneline.core.records import Record
from tuneline.core.tables import SplitReader
from tuneline.core.written_records import write_record
from tuneline.params import params_file
from tuneline.params.data import DataParams
from tuneline.params.loading import load_params
from tuneline.paths import CHECKS, PARAMS, RAW, REFERENCE_PROFILE, SPLITS
from tuneline.predict.scored import TakenRecord, find_texts
from tuneline.reports.checks import Checks
from tuneline.repository.branches import ROWS_TRAILER
from tuneline.repository.dvc import require_remote
from tuneline.repository.registry import Version
from tuneline.runtime.atomic_files import replace_directory
from tuneline.runtime.errors import ParamsError
from tuneline.runtime.locks import BusyError, locked
from tuneline.runtime.wording import first_of
from tuneline.settings import IngestSource, Name, Settings, load_settings

ATTEMPTS = 5
"""Times that a run starts again if the branch has moved in the meantime."""
STAGES = ("base", "download", "tokenize", "validate")
"""The stages up to the data checks, in their order."""
DONE = "done"
"""Folder in a drop folder for files that were ingested."""
REFUSED = "refused"
"""Folder in a drop folder for files that the data checks refused."""
TAKEN = "taken.json"
"""Record in ``.dvc/tmp/flows/`` of the files in ``DONE``."""
PROBLEMS = "ingest-problems.json"
"""Record in ``.dvc/tmp/flows/`` of the files that made a run fail."""
NAMED = 5
"""Files of a source that a commit message names."""
INGESTED = "tuneline.data.ingested"
REFUSED_EVENT = "tuneline.data.refused"
CONFLICTING = "tuneline.data.conflicting"
RESOURCE = "tuneline.data.source"


class RefusedDataError(Exception):
    """The data with the new rows failed its checks; the message names them."""


@dataclass(frozen=True)
class HubRevision:
    """A new commit of the data set of the hub that a source follows.

    Attributes:
        root: The checkout that gets the commit.
        texts: The text columns.
        before: Hashes of the texts that ``data/raw`` had before, by split; empty if the checkout had none.
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
            hint = (
                "A source with hub: true follows the data set of data.path; for files, name a folder, url or"
                " query."
            )
            raise ParamsError(f"{source.name}: data.source is {data.source!r}, not 'hub'.", hint)
        from huggingface_hub import HfApi

        with hub_errors_explained("data.path", str(data.path), source.revision):
            commit = str(HfApi().dataset_info(str(data.path), revision=source.revision).sha)
        if commit == data.revision:
            return None

        texts = tuple(data.text_columns)
        before = raw_texts(root, texts)
        # The changed text, and not the parameters written anew: this keeps the comments.
        content = params_file.changed(root / PARAMS, {"data.revision": commit})
        params_file.write(root / PARAMS, content)
        return cls(source, commit, root, texts, before)

    @property
    def unread_entry(self) -> Ingested:
        """The entry of the ledger, before the stages have run: without a number of rows."""
        return Ingested(
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            source=self.source.name,
            revision=self.commit,
        )

    def entry(self) -> Ingested:
        """Return the entry of the ledger, after the stages have run.

        Raises:
            RefusedDataError: Rows that were held out are now in train.
        """
        after = raw_texts(self.root, self.texts)
        no_rows = np.zeros(0, np.uint64)

        held_out = [texts for split, texts in self.before.items() if split != "train"]
        held_out_before = np.concatenate([no_rows, *held_out])
        train_before = self.before.get("train", no_rows)
        train = after.get("train", no_rows)
        moved = int(np.count_nonzero(np.isin(train, held_out_before) & ~np.isin(train, train_before)))
        if moved:
            raise RefusedDataError(
                f"{moved:,} rows that were in validation or test are in train in {self.commit[:12]}."
            )

        added = 0
        if self.before:
            added = _rows(after) - _rows(self.before)
        return self.unread_entry.model_copy(update={"added": max(0, added)})


def _rows(splits: Mapping[str, Keys]) -> int:
    return sum(len(texts) for texts in splits.values())


def raw_texts(root: Path, texts: tuple[str, ...]) -> dict[str, Keys]:
    """Return the hashes of the texts in ``data/raw`` by split; empty if the checkout has no raw splits."""
    splits = {}
    for split in SPLITS:
        raw = SplitReader.find(root / RAW, split)
        if raw:
            hashes = [np.zeros(0, np.uint64)]
            for batch in raw.batches(texts):
                no_labels = pa.nulls(len(batch), pa.string())
                hashes.append(RowHashes.of(batch.columns, no_labels, None).texts)
            splits[split] = np.concatenate(hashes)
    return splits


@dataclass
class IngestAttempt:
    """One attempt of a run: brings new rows into a checkout, checks and commits them.

    Attributes:
        checkout: A checkout of the branch that gets the rows.
        push: The rows are pushed to the DVC remote, and the branch to ``origin``.
        dry_run: The checks run, but nothing is committed.
        revision: The new commit, if the source is a data set of the hub.
        new: The new rows.
    """

    repository: Repository
    settings: Settings
    checkout: Checkout
    pipeline: Pipeline
    sources: Sequence[IngestSource]
    push: bool
    dry_run: bool
    revision: HubRevision | None = None
    new: NewRows = field(default_factory=NewRows)

    @property
    def branch(self) -> str:
        """The branch that gets the rows."""
        return self.settings.ingest.branch

    def run(self) -> State[Any] | None:
        """Collect, check and commit; ``None`` if the branch has moved."""
        # An attempt that was killed after its push left this clone behind.
        if self.checkout.spec.ref != self.branch and not self.dry_run:
            follow_origin(self.repository, self.branch, self.checkout.spec.commit)
        self.pipeline.restore(self.pipeline.graph().sources)

        # the new rows
        self.new = task(name="collect", task_run_name="collect", **UNCACHED)(self.collect)()
        too_few = self.revision is None and self.new.rows < max(1, self.settings.ingest.min_rows)
        if not self.new.entries or too_few:
            return self._nothing_new()

        # the data checks
        try:
            self.check()
        except RefusedDataError as error:
            return self._refused(str(error))
        if self.dry_run:
            return self._ended(f"Would commit to {self.branch}: {self.new.summary}", "DryRun")

        # the commit
        conflicts = self._tell_of_conflicts()
        commit = self.commit()
        if not self._published(commit):
            return None
        put_away(self.repository, self.new.done, DONE)
        return self._ingested(commit, self.new.rows, f": {self.new.summary}{conflicts}")

    def _published(self, commit: str) -> bool:
        """Move the branch to a commit; return False if it has moved meanwhile."""
        try:
            fast_forward(self.repository, self.branch, commit, push=self.push)
        except NotFastForwardError as error:
            get_run_logger().warning("%s The run starts again from there.", error)
            return False
        return True

    def collect(self) -> NewRows:
        """Bring the new rows of the sources into the checkout.

        Raises:
            ParamsError: The parameters of the branch do not allow it.
            DataError: The data of the branch cannot be read.
        """
        root = self.checkout.path
        repository = self.repository
        data = load_params(root / PARAMS).data

        if any(source.hub for source in self.sources):
            if len(self.sources) > 1:
                hint = "data.source is one data set, or files."
                raise ParamsError("ingest.sources: a source with hub: true must be the only one.", hint)
            self.revision = HubRevision.find(self.sources[0], data, root)
            if self.revision is None:
                return NewRows()
            return NewRows(entries=[self.revision.unread_entry])

        harvester = Harvester(
            repository.root,
            root,
            data,
            key=self.settings.ingest.key,
            find_texts=partial(find_texts, repository.root, repository.root / self.settings.scoring.outbox),
            log=self.pipeline.on_line,
        )
        tracked = harvester.layout.tracked(root, repository)
        new = harvester.harvest(self.sources, root / ".dvc" / "tmp" / "ingest")
        new.tracked = tracked
        return new

    def check(self) -> None:
        """Run the data checks.

        The new data is compared with the data of the model in production; before a promotion, with the data
        of the checked-out commit.

        Raises:
            RefusedDataError: A check of severity ``error`` failed.
            ProgramError: A stage failed for another reason.
        """
        registry = Registry(self.repository, self.settings.promotion.artifact)
        if fetch_reference(self.pipeline, registry, self.settings.promotion.stage) is None:
            self._fetch_present()

        stages = self.pipeline.graph().stages
        for stage in STAGES:
            if stage not in stages:
                continue
            try:
                stage_task(stage, self.settings.policy(stage))(self.pipeline)
            except ProgramError:
                errors = self._check_errors() if stage == "validate" else []
                if not errors:
                    raise
                raise RefusedDataError("\n".join(errors)) from None

        if self.revision:
            self.new.entries = [self.revision.entry()]

    def _check_errors(self) -> list[str]:
        """Return the data checks that failed and stop the pipeline, a line each."""
        report = Checks.read_if_valid(self.checkout.path / CHECKS / "checks.json")
        if report is None:
            return []
        errors = []
        for entry in report.checks:
            if entry.stops:
                errors.append(f"{entry.check}, {entry.split}: {entry.found} (allowed: {entry.allowed})")
        return errors

    def _fetch_present(self) -> None:
        """Fetch the profile of the data of the checked-out commit, as the reference of the checks."""
        target = self.checkout.path / REFERENCE_PROFILE
        if not target.parent.is_dir():
            return
        version = Version(self.checkout.spec.ref, self.checkout.spec.commit)
        try:
            fetch_profile(self.pipeline, self.repository, version, target)
        except ProgramError as error:
            message = (
                "The profile of the present data cannot be had, so the new data is compared with nothing"
            )
            self.pipeline.on_line(f"{message}: {error.reason}")

    def commit(self) -> str:
        """Commit batch files and ledger in the checkout, and return the commit. No branch has it yet.

        ``push`` pushes the rows to the DVC remote first: what a commit names must be available.
        """
        if self.new.tracked is None:
            paths = [str(PARAMS)]
        else:
            paths = self._version(self.new.tracked)
        return self._commit(self.new.entries, paths, _commit_message(self.new, runtime.flow_run.id))

    def _commit(self, entries: Sequence[Ingested], paths: Sequence[str], message: str) -> str:
        """Commit files with the ledger, which gets more entries, and return the commit."""
        root = self.checkout.path
        git = self.repository.git
        write_record(root / LEDGER, Ledger.of(root).plus(entries))
        git("add", "--", *paths, str(LEDGER), cwd=root)
        git("-c", "commit.gpgsign=false", "commit", "--quiet", "--file=-", cwd=root, text=message)
        return git("rev-parse", "HEAD", cwd=root)

    def _version(self, tracked: Path) -> list[str]:
        """Add the folder of the batches to DVC, and return the files that git has to have."""
        file = f"{tracked}.dvc"
        self.pipeline.dvc("add", "--quiet", str(tracked), what="Versioning the new rows")
        if self.push:
            require_remote(self.checkout.path)
            self.pipeline.dvc("push", file, what="Pushing the new rows to the DVC remote")

        files = [file]
        # dvc add lists the folder there, if git does not ignore it already.
        ignored = tracked.parent / ".gitignore"
        if (self.checkout.path / ignored).exists():
            files.append(str(ignored))
        return files

    def _ended(self, message: str, name: str = "Completed") -> State[Any]:
        """Return the state of the run, with the files that could not be read."""
        problems = self.new.problems
        if self.dry_run:
            return ended(message, problems, name)
        record = self.repository.state / PROBLEMS
        return ended_again(record, self.settings.alerts.repeat_hours, message, problems, name)

    def _nothing_new(self) -> State[Any] | None:
        """End a run that commits no rows; ``None`` if the branch has moved."""
        new = self.new
        required = self.settings.ingest.min_rows
        if 0 < new.rows < required:
            return self._ended(
                f"{new.rows:,} new rows wait until there are {required:,} (ingest.min_rows): {new.summary}",
                "NothingNew",
            )
        summary = new.summary or "Nothing new."
        if self.dry_run:
            return self._ended(summary, "NothingNew")

        # Before the conflicts are counted: a kill in between repeats the message.
        conflicts = self._tell_of_conflicts()
        uncounted = self._uncounted_conflicts()
        if uncounted and not self._published(self._count_conflicts(uncounted)):
            return None
        put_away(self.repository, new.done, DONE)

        # An earlier attempt of this run may have been killed after its commit, and before its event.
        committed = committed_by(self.repository, self.checkout.spec.commit, runtime.flow_run.id)
        if committed:
            commit, rows = committed
            return self._ingested(commit, rows, ", by an earlier attempt of this run")
        return self._ended(f"{summary}{conflicts}", "NothingNew")

    def _uncounted_conflicts(self) -> list[Ingested]:
        """Return the entries with rows that contradict the data and that the ledger does not have yet."""
        ledger = Ledger.of(self.checkout.path)
        return [entry for entry in self.new.entries if not ledger.knows_conflicts_of(entry)]

    def _count_conflicts(self, entries: Sequence[Ingested]) -> str:
        """Commit the ledger alone, with entries that gave no row, and return the commit."""
        counts = "\n".join(f"{entry.source}: {entry.counts}" for entry in entries)
        trailer = f"{RUN_TRAILER}: {runtime.flow_run.id}"
        return self._commit(entries, [], f"Count rows that contradict the data\n\n{counts}\n\n{trailer}")

    def _tell_of_conflicts(self) -> str:
        """List rows that contradict the data and were not listed yet, and return that in words.

        If their share is large, an event tells of them.
        """
        new = self.new
        uncounted = self._uncounted_conflicts()
        if not uncounted:
            return ""

        # the list
        review = self.repository.state / REFUSED_BATCHES / f"{self.checkout.name}-conflicts" / "review.csv"
        data = load_params(self.checkout.path / PARAMS).data
        write_contradictions(review, data, new.contradictions)
        message = (
            "Left out, because they contradict the data:"
            f" {new.conflicts:,} ({new.conflict_share:.1%}), listed in {review}."
        )
        todo = (
            "Where the new label is right, copy it from column 'proposed' to 'correct', then: tuneline"
            f" labels apply {review}"
        )
        get_run_logger().warning("%s %s", message, todo)

        # the event, with an identity of the rows: a repeated one has no second notification
        if new.conflict_share > self.settings.ingest.max_conflict_share:
            conflicts = " ".join(f"{entry.source} {entry.contradictions}" for entry in uncounted)
            payload = {
                "source": new.names,
                "message": f"{message} {todo}",
                "rows": new.conflicts,
                "share": new.conflict_share,
            }
            identity = uuid5(NAMESPACE_URL, conflicts)
            send(CONFLICTING, {"prefect.resource.id": RESOURCE}, payload, identity)
        return f". {message}"

    def _refused(self, checks: str) -> State[Any]:
        """Keep refused batches and the report of their checks, and put the files away."""
        new = self.new
        if self.dry_run:
            return ended(f"The data checks would refuse {new.summary}:", [checks])

        root = self.checkout.path
        refused = self.repository.state / REFUSED_BATCHES / self.checkout.name
        with replace_directory(refused) as folder:
            for batch in new.batches:
                shutil.copy2(root / batch, folder / batch.name)
            if (root / CHECKS).is_dir():
                shutil.copytree(root / CHECKS, folder / "checks")
        put_away(self.repository, new.files, REFUSED)

        message = f"The data checks refused {new.summary}; nothing was committed. Kept in {refused}."
        self._send(
            REFUSED_EVENT,
            f"{message}\n{checks}",
            rows=new.rows,
            checks=checks.splitlines(),
            folder=str(refused),
        )
        return ended(message, [checks])

    def _ingested(self, commit: str, rows: int, details: str) -> State[Any]:
        """Send the event of new rows, and return the state of the run."""
        message = f"{rows:,} rows to {self.branch}, commit {commit[:12]}{details}"
        self._send(INGESTED, message, branch=self.branch, commit=commit, rows=rows)
        return self._ended(message)

    def _send(self, event: str, message: str, **payload: Any) -> None:
        """Emit an event, with a message for people and a payload for programs."""
        resource = {"prefect.resource.id": RESOURCE}
        send(event, resource, {"source": self.new.names, "message": message, **payload})


def _commit_message(new: NewRows, run_id: str) -> str:
    """Return what came from where, and how many rows."""
    sources = []
    body = []
    for entry in new.entries:
        amount = entry.revision[:12] if entry.revision else f"{entry.added:,}"
        sources.append(f"{entry.source} {amount}")

        line = f"{entry.source}: {entry.counts}"
        if entry.files:
            line += f" ({first_of([read.name for read in entry.files], NAMED)})"
        body.append(line)

    lines = [f"Ingest new rows: {', '.join(sources)}", ""]
    lines += body
    lines += ["", f"{ROWS_TRAILER}: {new.rows}", f"{RUN_TRAILER}: {run_id}"]
    return "\n".join(lines)


def committed_by(repository: Repository, ref: str, run_id: str) -> tuple[str, int] | None:
    """Return the commit at the tip of a branch and its number of rows, if an earlier attempt made it."""
    rows_trailer = f"%(trailers:key={ROWS_TRAILER},valueonly,separator=)"
    run_trailer = f"%(trailers:key={RUN_TRAILER},valueonly,separator=)"
    output = repository.git("log", "-1", f"--format=%H %n{rows_trailer}%n{run_trailer}", ref)
    commit, *trailers = output.split()
    if len(trailers) != 2 or trailers[1] != run_id:
        return None
    return commit, int(trailers[0])


class Taken(Record):
    """``.dvc/tmp/flows/taken.json``: the files in the folders ``done``, as they were read."""

    files: Mapping[str, TakenRecord] = {}
    """The files by their paths, which are quoted as in URLs."""


def put_away(repository: Repository, deliveries: Sequence[Delivery], folder: str) -> None:
    """Move files of drop folders to a folder beside them.

    A file that changed since it was read stays; none is overwritten.
    """
    moves = {}
    taken = {}
    for delivery in deliveries:
        file = delivery.incoming
        if file is None or not file.unchanged:
            continue
        sha256 = delivery.read.sha256
        # Two files of one name and content are told apart by their times.
        digest = hashlib.sha256(f"{sha256}{file.mtime_ns}".encode()).hexdigest()
        target = unused(file.path.parent / folder / file.path.name, digest)
        moves[file.path] = target
        taken[_quoted(repository, target)] = TakenRecord(**file.as_record(), sha256=sha256)

    # The record first: what is moved must be known.
    if folder == DONE and taken:
        _record_taken(repository, taken)
    for path, target in moves.items():
        target.parent.mkdir(exist_ok=True)
        path.rename(target)


def _record_taken(repository: Repository, taken: Mapping[str, TakenRecord]) -> None:
    """Add files to the record of the taken ones; files that a person has removed since are left out."""
    path = repository.state / TAKEN
    former = Taken.read_if_valid(path) or Taken()
    files = {}
    for name, record in former.files.items():
        if (repository.root / unquote(name, errors="surrogateescape")).exists():
            files[name] = record
    files.update(taken)
    write_record(path, Taken(files=files))


def _quoted(repository: Repository, path: Path) -> str:
    return quote(str(path.relative_to(repository.root)), errors="surrogateescape")


def take_back(repository: Repository, sources: Sequence[IngestSource]) -> None:
    """Move files that were written on after they were read back to their drop folders, to be read again."""
    taken = Taken.read_if_valid(repository.state / TAKEN) or Taken()
    for source in sources:
        if not source.folder:
            continue
        folder = repository.root / source.folder
        for path in sorted((folder / DONE).glob("*")):
            record = taken.files.get(_quoted(repository, path))
            if record and was_written_on(path, record):
                path.rename(unused(folder / path.name, record.sha256))
                get_run_logger().warning(
                    "%s was written on after it was read: it is read again.", record.path
                )


@flow(name="ingest", persist_result=False)
def ingest(source: Name | None = None, push: bool | None = None, dry_run: bool = False) -> State[Any]:
    """Commit the new rows of the sources in `conf/flows.yaml`.

    Args:
        source: Name of one source; default: all.
        push: Push the rows to the DVC remote and the branch to `origin`; default: `ingest.push`.
        dry_run: Run the checks and say what would be committed; change nothing.
    """
    # settings
    repository = Repository.here(lambda line: get_run_logger().warning(line))
    settings = load_settings(repository.root)
    end_with_worker()
    sources = _chosen(settings, source)
    if not sources:
        return ended("There are no sources: ingest.sources in conf/flows.yaml is empty.", name="NothingNew")
    if push is None:
        push = settings.ingest.push
    if push:
        require_remote(repository.root)

    repository.state.mkdir(parents=True, exist_ok=True)
    try:
        with locked(repository.state / "ingest.lock", wait=0):
            return _ingest(repository, settings, sources, push=push, dry_run=dry_run)
    except BusyError as error:
        return ended(f"Another run is ingesting; the next run reads what it leaves. {error}", name="Skipped")


def _chosen(settings: Settings, name: str | None) -> list[IngestSource]:
    """Return the source of a name, or all sources without a name."""
    sources = settings.ingest.sources
    if name is None:
        return list(sources)
    chosen = [source for source in sources if source.name == name]
    if not chosen:
        names = ", ".join(source.name for source in sources) or "none"
        raise ParamsError(
            f"source: {name!r} is not in ingest.sources of conf/flows.yaml.", f"There is {names}."
        )
    return chosen


def _ingest(
    repository: Repository, settings: Settings, sources: list[IngestSource], *, push: bool, dry_run: bool
) -> State[Any]:
    """Try until the branch has not moved in between."""
    branch = settings.ingest.branch
    if not dry_run:
        complete_move(repository)
        take_back(repository, sources)

    ref = f"origin/{branch}" if push and repository.has_remote() else branch
    for _ in range(ATTEMPTS):
        with isolated(repository, f"ingest-{runtime.flow_run.id[:8]}", ref) as checkout:
            # What a killed attempt left is discarded: its rows are on the branch, or read again.
            if checkout.resumed:
                continue
            programs = Programs(checkout.path, checkout.name, locks=[checkout.lock])
            pipeline = Pipeline(programs, log_line, settings.lock_wait_seconds)
            attempt = IngestAttempt(repository, settings, checkout, pipeline, sources, push, dry_run)
            state = attempt.run()
        if state is not None:
            return state
    raise NotFastForwardError(f"{branch} moved during each of {ATTEMPTS} attempts; the next run tries again.")
