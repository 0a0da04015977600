"""The tasks of flow ``score``."""

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.events import emit_event

from flows.runs.line import Line
from flows.runs.processes import ProgramError
from flows.runs.tasks import UNCACHED
from flows.scoring.deployed import Served
from flows.scoring.drift import Measure, Seen, measure
from flows.scoring.inbox import METADATA, Incoming, Outbox, columns_of
from flows.settings import DriftLimits, Scoring


@task(name="score file", task_run_name="{incoming.path.name}", **UNCACHED)
def score_file(line: Line, served: Served, incoming: Incoming, outbox: Outbox, scoring: Scoring) -> int:
    """Scores one file and returns the number of its rows. Its output appears whole or not at all.

    Raises:
        ProgramError: It cannot be scored: a column is missing, or a row cannot be read. Why is beside the scored files.
    """
    target = outbox.scored(incoming)
    raw = target.with_name(f".{target.name}.raw.parquet")
    columns = columns_of(served.text_columns, scoring.keep)
    command = ["tuneline", "predict", str(incoming.path), "--model", str(served.folder), "--output", str(raw)]
    command += [f"--keep={column}" for column in columns] + ["--bad-rows", scoring.bad_rows]
    try:
        line.programs.run(command, f"Scoring {incoming.path.name}", line.on_line)
        rows = _finish(raw, target, served, incoming, scoring)
        outbox.refused(incoming).unlink(missing_ok=True)  # it was mended
        return rows
    except ProgramError as error:
        outbox.refuse(incoming, "\n".join(error.last))
        raise
    finally:
        raw.unlink(missing_ok=True)


def _finish(raw: Path, target: Path, served: Served, incoming: Incoming, scoring: Scoring) -> int:
    """Counts the rows, leaves the texts out unless they are to be kept, and writes down where the predictions come from."""
    file, columns = pq.ParquetFile(raw), columns_of(served.text_columns, scoring.keep)
    names = file.schema_arrow.names  # row, what was asked for (maybe under another name), then the predictions
    asked = dict(zip(columns, names[1 : 1 + len(columns)], strict=True))
    texts = [asked[column] for column in served.text_columns]
    kept = [name for name in names if name not in {asked[column] for column in columns if column not in scoring.keep}]
    rows, seen = 0, Seen.nothing(served.profile) if served.profile else None
    partial = target.with_name(f".{target.name}.partial")
    schema = pa.schema([file.schema_arrow.field(name) for name in kept])
    with pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        for batch in file.iter_batches():
            if seen is not None and served.profile is not None:
                answer = batch["label" if served.profile.names is not None else "prediction"]
                seen += Seen.of(served.profile, [batch[name] for name in texts], answer)
            writer.write_batch(batch.select(kept))
            rows += batch.num_rows
        model = {"version": served.version.name, "commit": served.version.commit}
        record = {
            **incoming.as_record(),
            "sha256": incoming.sha256,
            **model,
            "rows": rows,
            "seen": seen.to_json() if seen else None,
        }
        writer.add_key_value_metadata({METADATA: json.dumps(record)})
    partial.replace(target)
    return rows


@task(name="drift", task_run_name="drift", **UNCACHED)
def report_drift(served: Served, outbox: Outbox, limits: DriftLimits, state: Path) -> str:
    """Compares the last scored rows with the training data, and emits ``tuneline.data.drifted`` when they drifted.

    Returns:
        What was found, in a few words.
    """
    if served.profile is None:
        return "drift unknown"
    seen = recent(served, outbox, limits.window_rows)
    if seen.rows < limits.min_rows:
        return f"{seen.rows} rows say nothing about drift yet"
    found = measure(served.profile, seen, limits)
    create_markdown_artifact(as_markdown(served, seen, found), key="drift", description=f"{served.version.name}, {seen.rows} rows")
    beyond = [one for one in found if one.drifted]
    for one in found:
        get_run_logger().info("%s: %.4g (limit %g)%s", one.name, one.value, one.limit, " DRIFTED" if one.drifted else "")
    if not beyond:
        return "no drift"
    if _is_due(state / "drift.json", served.version.name, limits.repeat_hours):
        emit_event(
            event="tuneline.data.drifted",
            resource={"prefect.resource.id": "tuneline.data.inbox", "tuneline.version": served.version.name},
            payload={"version": served.version.name, "rows": seen.rows, "measures": [vars(one) for one in found]},
        )
    return f"drifted: {', '.join(one.name for one in beyond)}"


def recent(served: Served, outbox: Outbox, rows: int) -> Seen:
    """Counts of the last so many rows that this version scored, in whole files."""
    if served.profile is None:
        raise ValueError("nothing can be counted without a profile")
    seen = Seen.nothing(served.profile)
    for record in outbox.latest():
        if record.get("version") == served.version.name and record.get("seen"):
            seen += Seen.from_json(record["seen"])
        if seen.rows >= rows:
            break
    return seen


def as_markdown(served: Served, seen: Seen, found: list[Measure]) -> str:
    """For people in Prefect's UI."""
    head = f"# {'The data drifted' if any(one.drifted for one in found) else 'No drift'}"
    about = f"The last {seen.rows} rows, against the training data of {served.version.name} (`{served.version.commit[:12]}`)."
    rows = [
        f"| {'❌' if one.drifted else '✅'} | {one.name} | {one.value:.4g} | {one.limit:g} | "
        f"{'' if one.chance is None else f'{one.chance:.1g}'} |"
        for one in found
    ]
    return "\n".join([head, "", about, "", "| | measure | found | limit | chance |", "|---|---|---|---|---|", *rows])


def _is_due(file: Path, version: str, hours: float) -> bool:
    """Whether the last event about this model is long enough ago; remembers this one."""
    told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if time.time() - told.get(version, 0.0) < hours * 3600:
        return False
    file.write_text(json.dumps({version: time.time()}), encoding="utf-8")
    return True
