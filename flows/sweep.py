"""Flow ``sweep``: runs a sweep (docs/sweeps.md) for a commit, in a checkout of its own.

It leaves the table of the trials as an artifact of Prefect.
"""

import re
from pathlib import Path
from typing import Any

from prefect import flow, runtime
from prefect.artifacts import create_table_artifact
from prefect.client.schemas import State
from prefect.states import Completed

from flows.runs.checkout import isolated
from flows.runs.pipeline import log_line
from flows.runs.processes import Programs
from flows.runs.repository import Repository, safe_name
from flows.server.worker import end_with_worker
from flows.train import log_cancellation, machine_training_lock
from tuneline.settings import Ref, load_settings
from tuneline.sweeps.ranking import configuration_rows, verdict, winner
from tuneline.sweeps.record import SWEEP_STATE, SweepRecord

COMMAND = ["python", "-c", "from tuneline.cli import app; app(prog_name='tuneline')", "sweep"]
"""The program of the checkout, not the one of the worker: a sweep runs the code of its commit."""


@flow(name="sweep", persist_result=False)
def sweep(file: str, workers: int = 1, ref: Ref | None = None) -> State[Any]:
    """Find the best configuration on validation. Its trials are experiments of the repository.

    Args:
        file: The sweep, `conf/sweep/NAME.yaml`, in the commit that is run.
        workers: Trainings at the same time.
        ref: Branch, tag or commit to run; default: `training.ref`.
    """
    # settings
    repository = Repository.here()
    settings = load_settings(repository.root)
    end_with_worker()
    log_cancellation()

    # the trials
    name = Path(file).stem
    run = f"{safe_name(runtime.flow_run.name)}-{runtime.flow_run.id[:8]}"
    with (
        isolated(repository, run, ref or settings.training.ref) as checkout,
        machine_training_lock(settings.training.one_per) as machine,
    ):
        machine.acquire(checkout.name, log_line)
        locks = [checkout.lock, *machine.descriptors]
        programs = Programs(checkout.path, run, settings.training.environment, locks=locks)
        programs.run([*COMMAND, file, "--workers", str(workers)], f"Sweep {name}", log_line)
        record = SweepRecord.read(checkout.path / SWEEP_STATE / name / "record.json", "Run the flow again.")
        message = verdict(winner(checkout.path, name, record), record, name)

    # Prefect's keys consist of small letters, digits and dashes.
    key = "-".join(re.findall("[a-z0-9]+", f"sweep-{name}".lower()))
    create_table_artifact(key=key, table=configuration_rows(record, name), description=message)
    return Completed(message=message)
