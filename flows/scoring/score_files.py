"""The tasks of flow ``score``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact

from flows.alerts.events import send_if_due
from flows.runs.pipeline import Pipeline
from flows.runs.processes import ProgramError
from flows.runs.tasks import UNCACHED
from flows.scoring.deployed import DeployedModel
from flows.scoring.drift import DriftMeasure, RowCounts, measure
from flows.scoring.inbox import Incoming, Outbox
from flows.scoring.predictions import predict_files
from flows.scoring.results import Results
from flows.settings.scoring import DriftLimits


@task(name="score files", task_run_name="score files", **UNCACHED)
def score_files(pipeline: Pipeline, waiting: Sequence[Incoming], results: Results) -> Results:
    """Score files. One task for all of them: a task of its own takes longer than the prediction of a small file."""
    try:
        predict_files(pipeline, waiting, results.options, results.add)
    except ProgramError as error:
        results.problems.append(f"{len(waiting) - results.ended} files not scored, the next run tries again: {error.reason}")
    return results


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
