"""Flow ``ingest``: commits new labelled rows of a drop folder, after the data checks.

They go to the branch that is trained: the next training has them.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, runtime
from prefect.client.schemas import State

from tuneline.checks.results import Checks
from tuneline.core.params.loading import load_params
from tuneline.core.paths import CHECKS, PARAMS
from tuneline.core.repository.dvc import require_remote
from tuneline.core.repository.programs import ProgramError, Programs
from tuneline.core.runtime.errors import ParamsError
from tuneline.core.runtime.files import BusyError, locked
from tuneline.core.runtime.terminal import first_of, visible
from tuneline.core.settings import SETTINGS, Settings, load_settings
from tuneline.operations.alerts import ended, send
from tuneline.operations.inbox import Incoming
from tuneline.operations.new_rows import Harvester, NewRows
from tuneline.operations.promotion.registry import Registry, fetch_reference
from tuneline.operations.runs.checkout import isolated
from tuneline.operations.runs.commits import RUN_TRAILER, fast_forward
from tuneline.operations.runs.pipeline import Pipeline, log_line, stage_task
from tuneline.operations.runs.repository import Repository
from tuneline.operations.server.worker import end_with_worker

STAGES = ("base", "download", "tokenize", "validate")
"""The stages up to the data checks, in their order."""
DONE = "done"
"""Folder in the drop folder for files that were ingested."""
REFUSED_FOLDER = "refused"
"""Folder in the drop folder for files that cannot be read, or that the data checks refused."""
NAMED = 5
"""Files that a commit message names."""


@flow(name="ingest", persist_result=False)
def ingest(push: bool | None = None) -> State[Any]:
    """Commit the new rows of the drop folder.

    Args:
        push: Push the rows to the DVC remote and the branch to `origin`; default: `training.push`.
    """
    # settings
    repository = Repository.here(get_run_logger().warning)
    settings = load_settings(repository.root)
    end_with_worker()
    if settings.ingest.folder is None:
        return ended("There is no drop folder: ingest.folder in conf/flows.yaml is null.", name="NothingNew")
    if push is None:
        push = settings.training.push
    if push:
        require_remote(repository.root)
    branch = trained_branch(repository, settings.training.ref, push=push)

    repository.state.mkdir(parents=True, exist_ok=True)
    try:
        with locked(repository.state / "ingest.lock", wait=0):
            folder = repository.root / settings.ingest.folder
            return _ingest(repository, settings, folder, branch, push=push)
    except BusyError as error:
        return ended(f"Another run is ingesting; the next run reads what it leaves. {error}", name="Skipped")


def trained_branch(repository: Repository, ref: str, *, push: bool) -> str:
    """Return the branch that gets new rows: the one that ``training.ref`` names.

    Raises:
        ParamsError: It names no branch, or one of ``origin`` while nothing is pushed: no training would see
            the rows.
        GitError: It names nothing, or ``origin`` cannot be reached.
    """
    repository.resolve(ref)  # fetches what is new in origin
    branch = ref.removeprefix("origin/")
    if not repository.git("for-each-ref", f"refs/heads/{branch}", f"refs/remotes/origin/{branch}"):
        problem = f"{SETTINGS}: training.ref is {ref!r}, which is no branch: it cannot get new rows."
        raise ParamsError(problem, "Name a branch, or set ingest.folder to null.")
    if branch != ref and not push:
        problem = f"{SETTINGS}: training.ref is {ref!r}, and new rows would not be pushed there."
        raise ParamsError(problem, "Set training.push to true, or ingest.folder to null.")
    return branch


def _ingest(
    repository: Repository, settings: Settings, folder: Path, branch: str, *, push: bool
) -> State[Any]:
    """Bring new rows into a checkout of the branch, check and commit them, and put the files away."""
    ref = branch
    if push and repository.has_remote():
        ref = f"origin/{branch}"
    # Each attempt begins anew: the rows of one that was killed are on the branch, or are read again.
    name = f"ingest-{runtime.flow_run.id[:8]}-{runtime.flow_run.run_count}"
    with isolated(repository, name, ref) as checkout:
        root = checkout.path
        programs = Programs(root, name, locks=[checkout.lock])
        pipeline = Pipeline(programs, log_line, settings.lock_wait_seconds)
        pipeline.restore(pipeline.graph().sources)

        # the new rows
        data = load_params(root / PARAMS).data
        harvester = Harvester(root, data, log_line)
        tracked = harvester.tracked()
        new = harvester.harvest(folder, settings.scoring.settle_seconds, root / ".dvc" / "tmp" / "ingest")
        refused = list(new.refused.values())
        message = new.summary
        if new.counts["conflicting"]:
            message += ". Rows with another label in the data were left out; the log names the first ones"

        # the data checks, and the commit
        if new.batch is not None:
            errors = failed_checks(pipeline, settings, Registry(repository))
            if errors:
                put_away(new.files + list(new.refused), folder / REFUSED_FOLDER)
                message = f"The data checks refused {message}; nothing was committed."
                text = "\n".join(errors)
                _send("refused", f"{message}\n{text}", checks=errors)
                refused.insert(0, text)
                return ended(message, refused)
            commit = commit_rows(pipeline, repository, new, tracked, push=push)
            fast_forward(repository, branch, commit, push=push)
            message = f"{new.counts['new']:,} rows to {branch}, commit {commit[:12]}: {message}"

    put_away(new.files, folder / DONE)
    put_away(new.refused, folder / REFUSED_FOLDER)
    if new.batch is not None:
        _send("ingested", message, branch=branch, commit=commit, rows=new.counts["new"])
        return ended(message, refused)
    if new.counts["conflicting"]:
        _send("conflicting", message)
    return ended(message, refused, "NothingNew")


def failed_checks(pipeline: Pipeline, settings: Settings, registry: Registry) -> list[str]:
    """Run the data checks, and return those of severity ``error`` that failed.

    The new data is compared with the data of the model in production.

    Raises:
        ProgramError: A stage failed for another reason.
    """
    root = pipeline.programs.cwd
    fetch_reference(root, registry)
    stages = pipeline.graph().stages
    for stage in STAGES:
        if stage not in stages:
            continue
        try:
            stage_task(stage, settings.policy(stage))(pipeline)
        except ProgramError:
            report = Checks.read_if_valid(root / CHECKS / "checks.json")
            errors = []
            if stage == "validate" and report is not None:
                for entry in report.checks:
                    if entry.stops:
                        text = f"{entry.check}, {entry.split}: {entry.found} (allowed: {entry.allowed})"
                        errors.append(text)
            if not errors:
                raise
            return errors
    return []


def commit_rows(
    pipeline: Pipeline, repository: Repository, new: NewRows, tracked: Path, *, push: bool
) -> str:
    """Commit the batch file in the checkout, and return the commit. No branch has it yet.

    ``push`` pushes the rows to the DVC remote first: what a commit names must be available.
    """
    root = pipeline.programs.cwd
    git = repository.git
    file = f"{tracked}.dvc"
    pipeline.dvc("add", "--quiet", str(tracked), what="Versioning the new rows")
    if push:
        pipeline.dvc("push", file, what="Pushing the new rows to the DVC remote")

    files = [file]
    # dvc add lists the folder there, if git does not ignore it already.
    ignored = tracked.parent / ".gitignore"
    if (root / ignored).exists():
        files.append(str(ignored))
    names = first_of([incoming.name for incoming in new.files], NAMED)
    message = f"Ingest {new.counts['new']:,} new rows\n\n{new.summary} ({names})\n\n"
    message += f"{RUN_TRAILER}: {runtime.flow_run.id}"
    git("add", "--", *files, cwd=root)
    git("-c", "commit.gpgsign=false", "commit", "--quiet", "--file=-", cwd=root, text=message)
    return git("rev-parse", "HEAD", cwd=root)


def put_away(files: Iterable[Incoming], folder: Path) -> None:
    """Move files of the drop folder; one that changed since it was read stays, and none is overwritten."""
    for file in files:
        folder.mkdir(exist_ok=True)
        target = folder / file.name
        number = 2
        while target.exists():
            target = folder / f"{number}-{file.name}"
            number += 1
        file.move(target)


def _send(name: str, message: str, **payload: Any) -> None:
    """Emit an event, with a message for people and a payload for programs."""
    resource = {"prefect.resource.id": "tuneline.data.source"}
    send(f"tuneline.data.{name}", resource, {"message": visible(message), **payload})
