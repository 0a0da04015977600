"""Tasks that kill the worker that runs them: in a file, because workers are other processes."""

import os
import signal
from pathlib import Path

from tuneline.predict import batch, jobs

_predict_task, _predict_job = batch.predict_task, jobs.predict_job


def kill_first_worker(task):
    """Kill the worker that is the first to come to the second file of the folder."""
    if "b.csv" in task.output.path.name and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _predict_task(task)


def kill_first_worker_of_jobs(job):
    """Kill the worker that is the first to come to the second file."""
    if job.output.endswith("2.parquet") and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _predict_job(job)
