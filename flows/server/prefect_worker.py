"""Prefect's command line with a worker that reports a thing once, and starts a run with one process.

``python -m flows.server.prefect_worker worker start ...``

Prefect's process worker reports a crash when the process of the run has ended, and again after it has looked
for hooks of the flow, in a process of its own: half a minute later on a busy machine. If the run has been
started again by then, the second report ends its next attempt, which loses its place among the runs of its
deployment ("410 Gone: Lease not found").

Unless a command is configured, it also starts a process that finds the code of the flow, and only then the
one that runs it. The flows are installed where the worker is (``worker.enter``), so there is nothing to find:
the default command is given as a configured one.
"""

import logging
import re
from typing import Any

from prefect.cli import app
from prefect.client.schemas.objects import FlowRun
from prefect.workers.process import ProcessJobConfiguration, ProcessWorker, ProcessWorkerResult

_run = ProcessWorker.run


async def _run_and_report_once(
    self: ProcessWorker,
    flow_run: FlowRun,
    configuration: ProcessJobConfiguration,
    *arguments: Any,
    **more: Any,
) -> ProcessWorkerResult:
    """Run a flow. Its exit code is 0 for the caller, which would report another one again."""
    configuration._command_configured = True
    result = await _run(self, flow_run, configuration, *arguments, **more)
    return ProcessWorkerResult(status_code=0, identifier=result.identifier)


_TRIED = re.compile(r"(?P<what>Aborted submission of|submitting) flow run '(?P<run>[^']+)")
_waiting: set[str] = set()


def logged_once(record: logging.LogRecord) -> bool:
    """Pass on once that a run cannot start yet: one that waits for its turn is tried every 20 seconds."""
    attempt = _TRIED.search(record.getMessage())
    if not attempt:
        return True

    run = attempt["run"]
    logged_before = run in _waiting
    if attempt["what"] == "Aborted submission of":
        _waiting.add(run)
    return not logged_before


if __name__ == "__main__":
    logging.getLogger("prefect.flow_runs.worker").addFilter(logged_once)
    ProcessWorker.run = _run_and_report_once  # type: ignore[method-assign]
    app()
