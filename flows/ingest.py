"""Flow ``ingest``: commits new labelled rows of a drop folder to a branch, after the data checks.

The next training trains on them.
"""

import csv
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, runtime, task
from prefect.client.schemas import State

from flows.alerts import ended, send
from flows.inbox import Incoming
from flows.ingestion.harvest import Harvester, NewRows
from flows.promotion.production import fetch_profile, fetch_reference
from flows.promotion.registry import Registry
from flows.runs.checkout import Checkout, isolated
from flows.runs.commits import (
    RUN_TRAILER,
    NotFastForwardError,
    fast_forward,
    follow_origin,
)
from flows.runs.pipeline import UNCACHED, Pipeline, log_line, stage_task
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import Repository
from flows.server.worker import end_with_worker
from tuneline.params.loading import load_params
from tuneline.paths import CHECKS, PARAMS, REFERENCE_PROFILE
from tuneline.reports.checks import Checks
from tuneline.repository.dvc import require_remote
from tuneline.repository.registry import Version
from tuneline.runtime.atomic_files import replace_directory, replace_file
from tuneline.runtime.locks import BusyError, locked
from tuneline.runtime.terminal import visible
from tuneline.runtime.wording import first_of
from tuneline.settings import Settings, load_settings
from tuneline.words.spreadsheet import ENCODING, FORMULA

ATTEMPTS = 5
"""Times that a run starts again if the branch has moved in the meantime."""
STAGES = ("base", "download", "tokenize", "validate")
"""The stages up to the data checks, in their order."""
DONE = "done"
"""Folder in the drop folder for files that were ingested."""
REFUSED_FOLDER = "refused"
"""Folder in the drop folder for files that cannot be read, or that the data checks refused.

In ``.dvc/tmp/flows/``, the folder for batches that the data checks refused, and for contradicting rows.
"""
NAMED = 5
"""Files that a commit message names."""


class RefusedDataError(Exception):
    """The data with the new rows failed its checks; the message names them."""


@dataclass
class IngestAttempt:
    """One attempt of a run: brings new rows into a checkout, checks and commits them.

    Attributes:
        folder: The drop folder.
        checkout: A checkout of the branch that gets the rows.
        push: The rows are pushed to the DVC remote, and the branch to ``origin``.
        dry_run: The checks run, but nothing is committed.
    """

    repository: Repository
    settings: Settings
    folder: Path
    checkout: Checkout
    pipeline: Pipeline
    push: bool
    dry_run: bool

    def run(self) -> State[Any] | None:
        """Collect, check and commit; ``None`` if the branch has moved."""
        branch = self.settings.ingest.branch
        # An attempt that was killed after its push left this clone behind.
        if self.checkout.spec.ref != branch and not self.dry_run:
            follow_origin(self.repository, branch, self.checkout.spec.commit)
        self.pipeline.restore(self.pipeline.graph().sources)

        # the new rows
        root = self.checkout.path
        harvester = Harvester(root, load_params(root / PARAMS).data, self.pipeline.on_line)
        tracked = harvester.layout.tracked(root, self.repository)
        collect = task(name="collect", task_run_name="collect", **UNCACHED)(harvester.harvest)
        settle_seconds = self.settings.scoring.settle_seconds
        new = collect(self.folder, settle_seconds, root / ".dvc" / "tmp" / "ingest")
        refused = list(new.refused.values())
        if new.batch is None:
            if self.dry_run or not new.files + list(new.refused):
                return ended(new.summary, refused, "NothingNew")
            message = f"{new.summary}{self._list_conflicts(new)}"
            put_away(new.files, self.folder / DONE)
            put_away(new.refused, self.folder / REFUSED_FOLDER)
            if new.conflicts:
                self._send("conflicting", message)
            return ended(message, refused, "NothingNew")

        # the data checks
        try:
            self._check()
        except RefusedDataError as error:
            return self._refuse(new, str(error))
        if self.dry_run:
            return ended(f"Would commit to {branch}: {new.summary}", refused, "DryRun")

        # the commit
        commit = self._commit(new, tracked)
        try:
            fast_forward(self.repository, branch, commit, push=self.push)
        except NotFastForwardError as error:
            get_run_logger().warning("%s The run starts again from there.", error)
            return None
        message = f"{new.counts['new']:,} rows to {branch}, commit {commit[:12]}: {new.summary}"
        message += self._list_conflicts(new)
        put_away(new.files, self.folder / DONE)
        put_away(new.refused, self.folder / REFUSED_FOLDER)
        self._send("ingested", message, branch=branch, commit=commit, rows=new.counts["new"])
        return ended(message, refused)

    def _check(self) -> None:
        """Run the data checks.

        The new data is compared with the data of the model in production; before a promotion, with the data
        of the checked-out commit.

        Raises:
            RefusedDataError: A check of severity ``error`` failed.
            ProgramError: A stage failed for another reason.
        """
        registry = Registry(self.repository, self.settings.promotion.artifact)
        reference = fetch_reference(self.pipeline, registry, self.settings.promotion.stage)
        target = self.checkout.path / REFERENCE_PROFILE
        if reference is None and target.parent.is_dir():
            present = Version(self.checkout.spec.ref, self.checkout.spec.commit)
            try:
                fetch_profile(self.pipeline, self.repository, present, target)
            except ProgramError as error:
                self.pipeline.on_line(f"The new data is compared with no other: {error.reason}")

        stages = self.pipeline.graph().stages
        for stage in STAGES:
            if stage not in stages:
                continue
            try:
                stage_task(stage, self.settings.policy(stage))(self.pipeline)
            except ProgramError:
                report = Checks.read_if_valid(self.checkout.path / CHECKS / "checks.json")
                if stage != "validate" or report is None:
                    raise
                errors = []
                for entry in report.checks:
                    if entry.stops:
                        errors.append(
                            f"{entry.check}, {entry.split}: {entry.found} (allowed: {entry.allowed})"
                        )
                if not errors:
                    raise
                raise RefusedDataError("\n".join(errors)) from None

    def _commit(self, new: NewRows, tracked: Path) -> str:
        """Commit the batch file in the checkout, and return the commit. No branch has it yet.

        ``push`` pushes the rows to the DVC remote first: what a commit names must be available.
        """
        root = self.checkout.path
        git = self.repository.git
        file = f"{tracked}.dvc"
        self.pipeline.dvc("add", "--quiet", str(tracked), what="Versioning the new rows")
        if self.push:
            require_remote(root)
            self.pipeline.dvc("push", file, what="Pushing the new rows to the DVC remote")

        files = [file]
        # dvc add lists the folder there, if git does not ignore it already.
        ignored = tracked.parent / ".gitignore"
        if (root / ignored).exists():
            files.append(str(ignored))
        names = first_of([incoming.name for incoming in new.files], NAMED)
        rows = new.counts["new"]
        trailers = f"Ingested-Rows: {rows}\n{RUN_TRAILER}: {runtime.flow_run.id}"
        message = f"Ingest {rows:,} new rows\n\n{new.summary} ({names})\n\n{trailers}"
        git("add", "--", *files, cwd=root)
        git("-c", "commit.gpgsign=false", "commit", "--quiet", "--file=-", cwd=root, text=message)
        return git("rev-parse", "HEAD", cwd=root)

    def _list_conflicts(self, new: NewRows) -> str:
        """List rows that contradict the data, and return in words where."""
        if not new.conflicts:
            return ""
        path = self.repository.state / REFUSED_FOLDER / f"{self.checkout.name}-conflicts.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = load_params(self.checkout.path / PARAMS).data.text_columns
        with replace_file(path) as partial, partial.open("w", encoding=ENCODING, newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["row", "label", "label_in_data", *columns])
            for conflict in new.conflicts:
                # No cell is executed by a spreadsheet.
                writer.writerow([f" {cell}" if cell.startswith(FORMULA) else cell for cell in conflict])
        return f". Rows with another label in the data were left out, and are listed in {path}"

    def _refuse(self, new: NewRows, checks: str) -> State[Any]:
        """Keep a refused batch and the report of its checks, and put the files away."""
        if self.dry_run or new.batch is None:
            return ended(f"The data checks would refuse {new.summary}:", [checks])

        root = self.checkout.path
        refused = self.repository.state / REFUSED_FOLDER / self.checkout.name
        with replace_directory(refused) as folder:
            shutil.copy2(root / new.batch, folder / new.batch.name)
            if (root / CHECKS).is_dir():
                shutil.copytree(root / CHECKS, folder / "checks")
        put_away([*new.files, *new.refused], self.folder / REFUSED_FOLDER)
        message = f"The data checks refused {new.summary}; nothing was committed. Kept in {refused}."
        self._send("refused", f"{message}\n{checks}", checks=checks.splitlines())
        return ended(message, [checks, *new.refused.values()])

    def _send(self, name: str, message: str, **payload: Any) -> None:
        """Emit an event, with a message for people and a payload for programs."""
        resource = {"prefect.resource.id": "tuneline.data.source"}
        send(f"tuneline.data.{name}", resource, {"message": visible(message), **payload})


def put_away(files: Iterable[Incoming], folder: Path) -> None:
    """Move files of the drop folder; one that changed since it was read stays, and none is overwritten."""
    folder.mkdir(exist_ok=True)
    for file in files:
        if Incoming.find(file.path) != file:
            continue
        target = folder / file.path.name
        number = 2
        while target.exists():
            target = folder / f"{number}-{file.path.name}"
            number += 1
        file.path.rename(target)


@flow(name="ingest", persist_result=False)
def ingest(push: bool | None = None, dry_run: bool = False) -> State[Any]:
    """Commit the new rows of the drop folder.

    Args:
        push: Push the rows to the DVC remote and the branch to `origin`; default: `ingest.push`.
        dry_run: Run the checks and say what would be committed; change nothing.
    """
    # settings
    repository = Repository.here(lambda line: get_run_logger().warning(line))
    settings = load_settings(repository.root)
    end_with_worker()
    if settings.ingest.folder is None:
        return ended("There is no drop folder: ingest.folder in conf/flows.yaml is null.", name="NothingNew")
    if push is None:
        push = settings.ingest.push
    if push:
        require_remote(repository.root)

    repository.state.mkdir(parents=True, exist_ok=True)
    folder = repository.root / settings.ingest.folder
    try:
        with locked(repository.state / "ingest.lock", wait=0):
            return _ingest(repository, settings, folder, push=push, dry_run=dry_run)
    except BusyError as error:
        return ended(f"Another run is ingesting; the next run reads what it leaves. {error}", name="Skipped")


def _ingest(
    repository: Repository, settings: Settings, folder: Path, *, push: bool, dry_run: bool
) -> State[Any]:
    """Try until the branch has not moved in between."""
    branch = settings.ingest.branch
    ref = f"origin/{branch}" if push and repository.has_remote() else branch
    for _ in range(ATTEMPTS):
        with isolated(repository, f"ingest-{runtime.flow_run.id[:8]}", ref) as checkout:
            # What a killed attempt left is discarded: its rows are on the branch, or read again.
            if checkout.resumed:
                continue
            programs = Programs(checkout.path, checkout.name, locks=[checkout.lock])
            pipeline = Pipeline(programs, log_line, settings.lock_wait_seconds)
            attempt = IngestAttempt(repository, settings, folder, checkout, pipeline, push, dry_run)
            state = attempt.run()
        if state is not None:
            return state
    raise NotFastForwardError(f"{branch} moved during each of {ATTEMPTS} attempts; the next run tries again.")
