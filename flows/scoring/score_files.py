"""The tasks of flow ``score``."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact

from flows.alerts.events import send_if_due
from flows.runs.pipeline import Pipeline
from flows.runs.processes import ProgramError
from flows.runs.tasks import UNCACHED
from flows.scoring.deployed import DeployedModel
from flows.scoring.drift import DriftMeasure, RowCounts, measure
from flows.scoring.inbox import METADATA, Incoming, Outbox, ScoredRecord
from flows.settings.scoring import DriftLimits, Scoring
from tuneline.errors import InputError
from tuneline.files import replace_file


class RefusedError(Exception):
    """A file cannot be scored; the message is the reason."""


class ChangedError(Exception):
    """A file changed, or was removed, while it was scored."""


@task(name="score file", task_run_name="{incoming.name}", **UNCACHED)
def score_file(pipeline: Pipeline, model: DeployedModel, incoming: Incoming, outbox: Outbox, scoring: Scoring) -> int:
    """Score one file and return the number of its rows. The output appears complete or not at all.

    Only a fault of the file refuses it; after every other error, the next run tries again.

    Raises:
        RefusedError: A column is missing, or a row cannot be read. The reason is in the outbox.
        ChangedError: The file is no longer as it was found.
        ProgramError: ``tuneline predict`` failed for a reason that is not in the file, or was killed.
        OSError: The outbox cannot be written.
    """
    outbox.refused(incoming).unlink(missing_ok=True)  # first: a kill must not leave the result beside an earlier refusal
    raw, columns = outbox.scratch / "predictions.parquet", _columns(model.text_columns, scoring.keep)
    command = ["tuneline", "predict", str(incoming.path), "--model", str(model.folder), "--output", str(raw)]
    command += [f"--keep={column}" for column in columns] + ["--bad-rows", scoring.bad_rows]
    command += [f"--{name.replace('_', '-')}={value}" for name, value in scoring.limits]
    try:
        pipeline.programs.run(command, f"Scoring {incoming.name}", pipeline.on_line)
        return _write_scored(raw, outbox.scored(incoming), model, incoming, scoring)
    except ProgramError as error:
        _check_unchanged(incoming)
        if error.code != InputError.status:
            raise
        outbox.refuse(incoming, "\n".join(error.last))
        raise RefusedError(error.reason) from None
    finally:
        raw.unlink(missing_ok=True)


def _write_scored(raw: Path, target: Path, model: DeployedModel, incoming: Incoming, scoring: Scoring) -> int:
    """Write the predictions without the texts (unless ``scoring.keep`` lists them) and with a record; return the number of rows."""
    file, columns = pq.ParquetFile(raw), _columns(model.text_columns, scoring.keep)
    names = file.schema_arrow.names  # row, the kept columns (maybe under another name), then the predictions
    name_of = dict(zip(columns, names[1 : 1 + len(columns)], strict=True))
    texts = [name_of[column] for column in model.text_columns]
    kept = [name for name in names if name not in {name_of[column] for column in columns if column not in scoring.keep}]
    rows, counts = 0, RowCounts.empty(model.profile) if model.profile else None
    schema = pa.schema([file.schema_arrow.field(name) for name in kept])
    with replace_file(target) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        for batch in file.iter_batches():
            if counts is not None and model.profile is not None:
                predicted = batch["label" if model.profile.labels is not None else "prediction"]
                counts += RowCounts.of(model.profile, [batch[name] for name in texts], predicted)
            writer.write_batch(batch.select(kept))
            rows += batch.num_rows
        origin = {**incoming.as_record(), "sha256": incoming.sha256, "version": model.version.name, "commit": model.version.commit}
        record = ScoredRecord(**origin, rows=rows, seen=counts.to_json() if counts else None)
        writer.add_key_value_metadata({METADATA: record.model_dump_json()})
        _check_unchanged(incoming)
    return rows


def _check_unchanged(incoming: Incoming) -> None:
    if Incoming.find(incoming.path) != incoming:
        raise ChangedError("It changed, or was removed, while it was scored.")


def _columns(texts: list[str], keep: list[str]) -> list[str]:
    """Return the columns that ``tuneline predict`` is asked to keep: texts, which are counted, and those of ``scoring.keep``."""
    return list(dict.fromkeys([*texts, *keep]))


@task(name="drift", task_run_name="drift", **UNCACHED)
def report_drift(model: DeployedModel, outbox: Outbox, limits: DriftLimits, state: Path) -> str:
    """Compare the last scored rows with the training data, and emit ``tuneline.data.drifted`` if they drifted.

    Returns:
        The result in a few words.
    """
    if model.profile is None:
        return "drift unknown"
    counts = recent_counts(model, outbox, limits.window_rows)
    if counts.rows < limits.min_rows:
        return f"{counts.rows} rows are too few to detect drift"
    measures = measure(model.profile, counts, limits)
    create_markdown_artifact(as_markdown(model, counts, measures), key="drift", description=f"{model.version.name}, {counts.rows} rows")
    for one in measures:
        get_run_logger().info("%s: %.4g (limit %g)%s", one.name, one.value, one.limit, " DRIFTED" if one.drifted else "")
    drifted = [one.name for one in measures if one.drifted]
    if not drifted:
        return "no drift"
    payload = {"version": model.version.name, "rows": counts.rows, "measures": [_payload(one) for one in measures]}
    resource = {"prefect.resource.id": "tuneline.data.inbox", "tuneline.version": model.version.name}
    event: dict[str, Any] = {"event": "tuneline.data.drifted", "resource": resource, "payload": payload}
    send_if_due(state / "drift.json", model.version.name, limits.repeat_hours, **event)
    return f"drifted: {', '.join(drifted)}"


def _payload(one: DriftMeasure) -> dict[str, Any]:
    return {"name": one.name, "value": one.value, "p_value": one.p_value, "limit": one.limit, "drifted": one.drifted}


def recent_counts(model: DeployedModel, outbox: Outbox, rows: int) -> RowCounts:
    """Return the counts of at least the last ``rows`` rows that this version scored, in whole files."""
    if model.profile is None:
        raise ValueError(f"{model.version.name} has no profile, so its scored rows were not counted")
    counts = RowCounts.empty(model.profile)
    for record in outbox.latest():
        if record.version == model.version.name and (seen := RowCounts.from_json(model.profile, record.seen)):
            counts += seen
        if counts.rows >= rows:
            break
    return counts


def as_markdown(model: DeployedModel, counts: RowCounts, measures: list[DriftMeasure]) -> str:
    """Return the measures as a table, for Prefect's UI."""
    head = f"# {'The data drifted' if any(one.drifted for one in measures) else 'No drift'}"
    about = f"The last {counts.rows} rows, against the training data of {model.version.name} (`{model.version.commit[:12]}`)."
    rows = [
        f"| {'❌' if one.drifted else '✅'} | {one.name} | {one.value:.4g} | {one.limit:g} | "
        f"{'' if one.p_value is None else f'{one.p_value:.1g}'} |"
        for one in measures
    ]
    return "\n".join([head, "", about, "", "| | measure | value | limit | p-value |", "|---|---|---|---|---|", *rows])
