"""Flow ``score``: scores new files with the model in production, and reports drift.

Files are predicted in one process after the other. Each file has a result, or a reason why not.

Drift is that new rows no longer look like the training data of the model. They are compared with the train
split in ``reports/checks/profile.json`` of the model's commit (``tuneline/reports/drift.py``).
"""

import json
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from prefect import flow, get_run_logger, task
from prefect.artifacts import create_table_artifact
from prefect.client.schemas import State

from flows.alerts import ended, send_if_due
from flows.inbox import Incoming, Outbox, complete_files, unread
from flows.promotion.production import FetchedModel, fetch_model
from flows.promotion.registry import Registry
from flows.runs.pipeline import UNCACHED, OnLine, Pipeline
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import Repository
from flows.server.worker import end_with_worker
from tuneline.predict.scored import BEGINS, ENDS, METADATA, JobOptions, ScoredRecord
from tuneline.reports.checks import Profile
from tuneline.reports.drift import DRIFT_ROWS, DriftMeasure, RowCounts, drift_measures
from tuneline.repository.git import why_no_gate
from tuneline.repository.registry import Version
from tuneline.runtime.atomic_files import replace_file
from tuneline.runtime.errors import InputError
from tuneline.runtime.locks import BusyError, locked
from tuneline.runtime.terminal import visible
from tuneline.settings import DriftSettings, Scoring, Settings, load_settings

DRIFT_HOURS = 24.0
"""Hours between two events about the same model."""


@task(name="drift", task_run_name="drift", **UNCACHED)
def report_drift(model: FetchedModel, outbox: Outbox, limits: DriftSettings, state: Path) -> str:
    """Compare the last scored rows with the training data, and return in words if they drifted.

    If they did, emit ``tuneline.data.drifted``.
    """
    if model.profile is None:
        return "drift unknown"
    version = model.version
    counts = recent_counts(model.profile, version.name, outbox, limits.window_rows)
    if counts.rows < DRIFT_ROWS:
        return f"{counts.rows} rows are too few to detect drift"

    measures = drift_measures(model.profile, counts, limits)
    drifted = [measure.name for measure in measures if measure.drifted]
    conclusion = "The data drifted." if drifted else "No drift."
    reference = f"the training data of {version.name} (`{version.commit[:12]}`)"
    _show_drift(measures, f"{conclusion} The last {counts.rows} rows, against {reference}.")
    if not drifted:
        return "no drift"

    # the alert
    message = f"{counts.rows} rows scored by {version.name} no longer look like its training data"
    payload = {
        "message": f"{message}: {', '.join(drifted)}.",
        "version": version.name,
        "rows": counts.rows,
        "measures": [measure._asdict() for measure in measures],
    }
    send_if_due(
        state / "drift.json",
        version.name,
        DRIFT_HOURS,
        event="tuneline.data.drifted",
        resource={"prefect.resource.id": "tuneline.data.inbox", "tuneline.version": version.name},
        payload=payload,
    )
    return f"drifted: {', '.join(drifted)}"


def _show_drift(measures: Sequence[DriftMeasure], description: str) -> None:
    """Show the measures in Prefect's UI and in the log."""
    table = []
    for measure in measures:
        row = {"measure": measure.name, "value": f"{measure.value:.4g}", "limit": f"{measure.limit:g}"}
        row["p-value"] = "" if measure.p_value is None else f"{measure.p_value:.1g}"
        row["drifted"] = "yes" if measure.drifted else ""
        table.append(row)
        get_run_logger().info("%s", row)
    create_table_artifact(table, key="drift", description=description)


def recent_counts(profile: Profile, version: str, outbox: Outbox, rows: int) -> RowCounts:
    """Return the counts of at least the last ``rows`` rows that a version scored, in whole files."""
    counts = RowCounts.empty(profile)
    for record in outbox.latest():
        if record.version == version:
            file_counts = RowCounts.from_json(profile, record.seen)
            if file_counts:
                counts += file_counts
        if counts.rows >= rows:
            break
    return counts


FILES = 200
"""Files of one process: a command line has room for the longest paths of so many."""
OnEnd = Callable[[Incoming, Path, ProgramError | None], None]
"""Called with each file that ends, its predictions, and the error that it ended with."""
_BEGINS = re.compile(BEGINS.format(number="([0-9]+)"))
_ENDS = re.compile(ENDS.format(number="([0-9]+)", status="([0-9]+)"))


def predict_files(pipeline: Pipeline, files: Sequence[Incoming], options: JobOptions, on_end: OnEnd) -> None:
    """Predict files, one after the other; the next one is predicted while ``on_end`` handles the one before.

    Raises:
        ProgramError: A process ended, but not by a file: the model cannot be used, for example.
    """
    command = [sys.executable, "-P", "-m", "tuneline.predict.batch", json.dumps(asdict(options))]
    waiting = list(files)
    while waiting:
        part = waiting[:FILES]
        output = _Output(part, Path(options.folder), pipeline.on_line, on_end)
        paths = [str(incoming.path) for incoming in part]
        try:
            pipeline.programs.run(command + paths, "The prediction", output.read)
        except ProgramError as error:
            if not output.begun:
                raise
            # Ended by the file that was being predicted: it may need more memory than there is.
            output.end(error.code)
        del waiting[: output.ended]


class _Output:
    """What a process prints about its files.

    Attributes:
        ended: Number of the files that have ended.
        begun: True if the file after them has begun.
    """

    def __init__(self, files: Sequence[Incoming], folder: Path, on_line: OnLine, on_end: OnEnd) -> None:
        self.ended = 0
        self.begun = False
        self._files = files
        self._folder = folder
        self._on_line = on_line
        self._on_end = on_end
        self._lines: deque[str] = deque(maxlen=20)

    def read(self, line: str) -> None:
        """Read a line."""
        end = _ENDS.fullmatch(line)
        if not self.begun and _BEGINS.fullmatch(line):
            self.begun = True
            self._lines.clear()
            self._on_line(f"Scoring {self._files[self.ended].name}")
        elif self.begun and end and int(end[1]) == self.ended + 1:
            self.end(int(end[2]))
        else:
            self._lines.append(line)
            self._on_line(line)

    def end(self, code: int) -> None:
        """End the file that has begun."""
        incoming = self._files[self.ended]
        error = None
        if code:
            error = ProgramError(f"Scoring {incoming.name}", code, self._lines)
        self.ended += 1
        self.begun = False
        self._on_end(incoming, self._folder / f"{self.ended}.parquet", error)


VERSION = "model_version"
"""Column with the version of the model."""


@dataclass
class Results:
    """The results of a run.

    Attributes:
        ended: Number of files whose prediction ended.
        files: Number of files that were scored.
        rows: Number of the scored rows.
        problems: One for each file that was refused or not scored.
    """

    model: FetchedModel
    outbox: Outbox
    scoring: Scoring
    ended: int = 0
    files: int = 0
    rows: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def options(self) -> JobOptions:
        """Options of the prediction. Texts are copied into its output, because the drift counts them."""
        columns = dict.fromkeys([*self.model.text_columns, *self.scoring.keep])
        return JobOptions(
            model=str(self.model.folder),
            folder=str(self.outbox.scratch),
            keep=list(columns),
            max_bad_share=self.scoring.max_bad_share,
        )

    def add(self, incoming: Incoming, predictions: Path, error: ProgramError | None) -> None:
        """Write the result of a file, or why there is none. Whatever happens to a file stops no other.

        Only a fault of the file refuses it; after every other error, the next run tries again.
        """
        self.ended += 1
        try:
            if error is None:
                self._write(incoming, predictions)
            elif error.code == InputError.status:
                incoming.check_unchanged()
                self.outbox.refuse(incoming, "\n".join(error.last))
                self.problems.append(f"refused {incoming.name}: {error.reason}")
            else:
                raise error
        except Exception as cause:
            reason = cause.reason if isinstance(cause, ProgramError) else f"{type(cause).__name__}: {cause}"
            self.problems.append(f"not scored {incoming.name}, the next run tries again: {reason}")
        finally:
            predictions.unlink(missing_ok=True)

    def _write(self, incoming: Incoming, predictions: Path) -> None:
        """Write the result of a file, and move the file to the archive.

        The result has the predictions, the version of the model, and a record. An input that is no longer as
        it was found has none.
        """
        result, place = self.outbox.unused(incoming)
        # First, so that a kill never leaves the result beside an earlier refusal.
        self.outbox.error(incoming).unlink(missing_ok=True)

        file = pq.ParquetFile(predictions)
        columns, schema, texts = self._columns(file.schema_arrow)
        profile = self.model.profile
        counts = RowCounts.empty(profile) if profile else None
        version = self.model.version
        rows = 0
        with replace_file(result) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:
            for batch in file.iter_batches():
                if counts is not None and profile is not None:
                    predicted = batch[profile.task.prediction_column]
                    counts += RowCounts.of(profile, [batch[name] for name in texts], predicted)
                arrays = batch.select(columns).columns
                arrays.append(pa.array([version.name] * batch.num_rows, pa.string()))
                writer.write_batch(pa.record_batch(arrays, schema=schema))
                rows += batch.num_rows

            record = ScoredRecord(
                **incoming.as_record(),
                sha256=incoming.sha256,
                version=version.name,
                commit=version.commit,
                rows=rows,
                seen=counts.to_json() if counts else None,
                archived=place.relative_to(self.outbox.root).as_posix(),
            )
            writer.add_key_value_metadata({METADATA: record.model_dump_json()})
            incoming.check_unchanged()
        self.files += 1
        self.rows += rows
        incoming.path.rename(place)

    def _columns(self, predictions: pa.Schema) -> tuple[list[str], pa.Schema, list[str]]:
        """Return the columns of predictions that a result has, its schema, and the columns with texts.

        Texts are left out of the result unless ``scoring.keep`` lists them.
        """
        # Predictions have the row, the copied columns (maybe under another name), then what was predicted.
        copies = dict(zip(self.options.keep, predictions.names[1:], strict=False))
        left_out = {copy for column, copy in copies.items() if column not in self.scoring.keep}

        columns = []
        fields = []
        for name in predictions.names:
            if name not in left_out:
                columns.append(name)
                # A copied column may have the name of the column with the version.
                result_name = f"input_{name}" if name == VERSION else name
                fields.append(predictions.field(name).with_name(result_name))
        fields.append(pa.field(VERSION, pa.string()))
        texts = [copies[column] for column in self.model.text_columns]
        return columns, pa.schema(fields), texts


@task(name="score files", task_run_name="score files", **UNCACHED)
def score_files(pipeline: Pipeline, waiting: Sequence[Incoming], results: Results) -> Results:
    """Score files.

    One task for all of them: a task of its own takes longer than the prediction of a small file.
    """
    try:
        predict_files(pipeline, waiting, results.options, results.add)
    except ProgramError as error:
        left = len(waiting) - results.ended
        results.problems.append(f"{left} files not scored, the next run tries again: {error.reason}")
    return results


@flow(name="score", persist_result=False)
def score() -> State[Any]:
    """Score the new files, and report drift."""
    repository = Repository.here()
    settings = load_settings(repository.root)
    end_with_worker()
    registry = Registry(repository, settings.promotion.artifact)
    repository.state.mkdir(parents=True, exist_ok=True)
    try:
        with locked(repository.state / "scoring.lock", wait=0) as lock:
            return _score(registry, settings, lock)
    except BusyError:
        return ended("Another run is scoring; the next run scores what it leaves.", name="Skipped")


def _score(registry: Registry, settings: Settings, lock: int) -> State[Any]:
    """Score the files, while this process has the lock of the inbox."""
    root = registry.repository.root
    state = registry.repository.state
    scoring = settings.scoring
    inbox = root / scoring.inbox
    outbox = Outbox(root, root / scoring.outbox, root / scoring.archive, state / "scoring")
    logger = get_run_logger()

    # the files and the model
    for problem in unread(inbox):
        logger.warning("Not scored: %s.", problem)
    waiting = []
    for incoming in complete_files(inbox, scoring.settle_seconds):
        if not outbox.refused(incoming):
            waiting.append(incoming)
    version = _production(registry, settings.promotion.stage)
    if version is None:
        message = f"No model is in {settings.promotion.stage} yet; {len(waiting)} files wait."
        return ended(message, name="NoModel")
    waiting = [incoming for incoming in waiting if not outbox.complete(incoming, version.commit)]
    if not waiting:
        return ended("No new file.", name="NothingNew")

    # the predictions
    outbox.prepare()
    programs = Programs(root, f"score-{os.getpid()}", locks=[lock])
    pipeline = Pipeline(programs, logger.info)
    model = fetch_model(registry, version, pipeline)
    results = score_files(pipeline, waiting, Results(model, outbox, scoring))
    drift = report_drift(model, outbox, scoring.drift, state)
    for problem in results.problems:
        logger.error("%s", visible(problem))
    message = f"{results.files} files, {results.rows} rows, by {version.name}; {drift}"
    return ended(message, results.problems)


def _production(registry: Registry, stage: str) -> Version | None:
    """Return what is in production in ``origin``, if that answers.

    It is logged if no gate decided about it.
    """
    for message in registry.fetch_if_possible():
        get_run_logger().warning("%s", message)
    ungated = why_no_gate(registry.repository.root, registry.tags(), stage)
    if ungated:
        get_run_logger().warning("%s", ungated)
    return registry.in_stage(stage)
