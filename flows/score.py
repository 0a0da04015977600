"""Flow ``score``: scores new files with the model in production, and reports drift.

Each file is predicted by a process of its own, and has a result, or a reason why not.

Drift is that new rows no longer look like the training data of the model. They are compared with the train
split in ``reports/checks/profile.json`` of the model's commit (``tuneline/operations/drift.py``).
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.client.schemas import State

from tuneline.checks.results import Profile
from tuneline.core.repository.promoted_models import ModelRepository
from tuneline.core.repository.registry import Version
from tuneline.core.runtime.atomic_files import replace_file
from tuneline.core.runtime.errors import InputError
from tuneline.core.runtime.locks import BusyError, locked
from tuneline.core.runtime.terminal import visible
from tuneline.core.settings import DriftSettings, Scoring, Settings, load_settings
from tuneline.core.stage.hashes import file_hash
from tuneline.onnx.usage import EXPORT_RECORD, UsageRecord
from tuneline.operations.alerts import ended, send_if_due
from tuneline.operations.drift import DRIFT_ROWS, DriftMeasure, RowCounts, drift_measures
from tuneline.operations.inbox import METADATA, Incoming, Outbox, ScoredRecord, complete_files, unread
from tuneline.operations.promotion.registry import Registry, fetch_profile
from tuneline.operations.runs.pipeline import OnLine
from tuneline.operations.runs.processes import ProgramError, Programs
from tuneline.operations.runs.repository import Repository
from tuneline.operations.server.worker import end_with_worker

DRIFT_HOURS = 24.0
"""Hours between two events about the same model."""
VERSION = "model_version"
"""Column with the version of the model."""


@dataclass
class Scorer:
    """Scores files with one model, and counts what comes of them.

    Attributes:
        model: Folder with ``model.onnx``, tokenizer and ``export.json``.
        profile: Profile of the model's data, if it has one.
        files: Number of files that were scored.
        rows: Number of the scored rows.
        problems: One for each file that was refused or not scored.
    """

    model: Path
    version: Version
    profile: Profile | None
    outbox: Outbox
    scoring: Scoring
    programs: Programs
    on_line: OnLine
    files: int = 0
    rows: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def text_columns(self) -> list[str]:
        """Names of the columns that the model reads."""
        return list(UsageRecord.read(self.model / EXPORT_RECORD).text_columns)

    def score(self, incoming: Incoming) -> None:
        """Write the result of a file, or why there is none. Whatever happens to a file stops no other.

        Only a fault of the file refuses it; after every other error, the next run tries again.
        """
        predictions = self.outbox.scratch / "predictions.parquet"
        # Texts are copied into the predictions, because the drift counts them.
        kept = list(dict.fromkeys(self.text_columns + self.scoring.keep))
        command = [sys.executable, "-P", "-m", "tuneline.serve.batch", str(incoming.path), str(predictions)]
        command += [str(self.model), str(self.scoring.max_bad_share)]
        command += kept
        try:
            self.programs.run(command, f"Scoring {incoming.name}", self.on_line)
            self._write(incoming, predictions, kept)
        except ProgramError as error:
            if error.code == InputError.status and Incoming.find(incoming.path) == incoming:
                self.outbox.refuse(incoming, "\n".join(error.last))
                self.problems.append(f"refused {incoming.name}: {error.reason}")
            else:
                self.problems.append(f"not scored {incoming.name}, the next run tries again: {error.reason}")
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            self.problems.append(f"not scored {incoming.name}, the next run tries again: {reason}")
        finally:
            predictions.unlink(missing_ok=True)

    def _write(self, incoming: Incoming, predictions: Path, kept: Sequence[str]) -> None:
        """Write the result of a file, and move the file to the archive.

        The result has the predictions, the version of the model, and a record. An input that is no longer as
        it was found has none.
        """
        result, place = self.outbox.unused(incoming)
        # First, so that a kill never leaves the result beside an earlier refusal.
        self.outbox.error(incoming).unlink(missing_ok=True)

        file = pq.ParquetFile(predictions)
        copies = dict(zip(kept, file.schema_arrow.names[1:], strict=False))
        columns, schema = self._result_columns(file.schema_arrow, copies)
        texts = [copies[column] for column in self.text_columns]
        counts = None
        if self.profile is not None:
            counts = RowCounts.empty(self.profile)
        rows = 0
        with replace_file(result) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:
            for batch in file.iter_batches():
                if counts is not None and self.profile is not None:
                    predicted = batch[self.profile.task.prediction_column]
                    counts += RowCounts.of(self.profile, [batch[name] for name in texts], predicted)
                arrays = batch.select(columns).columns
                arrays.append(pa.array([self.version.name] * batch.num_rows, pa.string()))
                writer.write_batch(pa.record_batch(arrays, schema=schema))
                rows += batch.num_rows

            record = ScoredRecord(
                path=incoming.name,
                sha256=file_hash(incoming.path),
                version=self.version.name,
                commit=self.version.commit,
                rows=rows,
                seen=counts.to_json() if counts else None,
            )
            writer.add_key_value_metadata({METADATA: record.model_dump_json()})
            incoming.check_unchanged()
        self.files += 1
        self.rows += rows
        incoming.path.rename(place)

    def _result_columns(self, predictions: pa.Schema, copies: dict[str, str]) -> tuple[list[str], pa.Schema]:
        """Return the columns of predictions that a result has, and its schema.

        Predictions have the row, the copied columns (maybe under another name), then what was predicted.
        Texts are left out of the result unless ``scoring.keep`` lists them.
        """
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
        return columns, pa.schema(fields)


def report_drift(scorer: Scorer, limits: DriftSettings, state: Path) -> str:
    """Compare the last scored rows with the training data, and return in words if they drifted.

    If they did, emit ``tuneline.data.drifted``.
    """
    version = scorer.version
    if scorer.profile is None:
        return "drift unknown"
    counts = recent_counts(scorer.profile, version.name, scorer.outbox, limits.window_rows)
    if counts.rows < DRIFT_ROWS:
        return f"{counts.rows} rows are too few to detect drift"

    measures = drift_measures(scorer.profile, counts, limits)
    drifted = [measure.name for measure in measures if measure.drifted]
    _show_drift(measures, f"The last {counts.rows} rows, against the training data of {version.name}.")
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


@flow(name="score", persist_result=False)
def score() -> State[Any]:
    """Score the new files, and report drift."""
    repository = Repository.here(get_run_logger().warning)
    settings = load_settings(repository.root)
    end_with_worker()
    repository.state.mkdir(parents=True, exist_ok=True)
    try:
        with locked(repository.state / "scoring.lock", wait=0) as lock:
            return _score(Registry(repository), settings, lock)
    except BusyError:
        return ended("Another run is scoring; the next run scores what it leaves.", name="Skipped")


def _score(registry: Registry, settings: Settings, lock: int) -> State[Any]:
    """Score the files, while this process has the lock of the inbox."""
    root = registry.repository.root
    state = registry.repository.state
    scoring = settings.scoring
    inbox = root / scoring.inbox
    outbox = Outbox(root / scoring.outbox, root / scoring.archive, state / "scoring")
    logger = get_run_logger()

    # the files and the model
    for problem in unread(inbox):
        logger.warning("Not scored: %s.", problem)
    registry.fetch_if_possible()
    version = registry.production()
    if version is None:
        return ended("No model is in production yet.", name="NoModel")
    waiting = []
    for incoming in complete_files(inbox, scoring.settle_seconds):
        if not outbox.refused(incoming) and not outbox.complete(incoming, version.commit):
            waiting.append(incoming)
    if not waiting:
        return ended("No new file.", name="NothingNew")

    # the predictions
    outbox.prepare()
    programs = Programs(root, f"score-{os.getpid()}", locks=[lock])
    profile = None
    profile_file = fetch_profile(root, version)
    if profile_file is not None:
        profile = Profile.read(profile_file)
    with ModelRepository(str(root)).files(version) as model:
        scorer = Scorer(model, version, profile, outbox, scoring, programs, logger.info)
        for incoming in waiting:
            scorer.score(incoming)
    drift = report_drift(scorer, scoring.drift, state)
    for problem in scorer.problems:
        logger.error("%s", visible(problem))
    message = f"{scorer.files} files, {scorer.rows} rows, by {version.name}; {drift}"
    return ended(message, scorer.problems)
